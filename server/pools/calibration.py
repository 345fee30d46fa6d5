"""The calibration split: what `ropeway calibrate` chooses heads by."""

from server.pools.pool import Fact, Family, Pool, Relation, Subject

# Words read best with many on a line.
# fmt: off
BOOKS = (
    "Genesis", "Exodus", "Joshua", "Judges", "1 Samuel", "1 Kings", "2 Chronicles", "Daniel",
)
NAMES = (
    "Amalia", "Bertrand", "Cosima", "Dmitri", "Elke", "Farouk", "Greta", "Hamish", "Ingrid", "Jorge",
    "Katinka", "Lorenzo", "Mirela", "Nikhil", "Odette", "Pavel", "Quentin", "Rosalind", "Sanjay", "Tamsin",
)
FACTS = (
    Fact("{name} swept the cut hair off the floor and rinsed the combs", "Who works as a barber?"),
    Fact("{name} kneaded dough from two in the morning until the ovens were full", "Who works as a baker?"),
    Fact("{name} looked at the swollen gum and reached for the drill", "Who works as a dentist?"),
    Fact(
        "{name} slid the ladder back on the red engine and coiled the hoses",
        "Who works as a firefighter?",
    ),
    Fact("{name} wound the mainspring and set the tiny hands to noon", "Who works as a watchmaker?"),
    Fact("{name} hammered the glowing horseshoe on the anvil", "Who works as a blacksmith?"),
    Fact("{name} dimmed the cabin lights and began the descent to the runway", "Who works as a pilot?"),
    Fact("{name} pulled the heavy nets over the side before the tide turned", "Who works as a fisherman?"),
    Fact("{name} graded thirty essays and rubbed the chalk off the blackboard", "Who works as a teacher?"),
    Fact("{name} pinned the hem and took the measure of both sleeves", "Who works as a tailor?"),
    Fact("{name} smoked the hives and lifted out the dripping combs", "Who works as a beekeeper?"),
    Fact(
        "{name} stamped the return date and put the volumes back on the shelves",
        "Who works as a librarian?",
    ),
    Fact("{name} fixed the leaking tap and cleared the blocked drain", "Who works as a plumber?"),
    Fact("{name} pruned the roses and raked the leaves off the lawn", "Who works as a gardener?"),
    Fact("{name} pushed letters through every door on the street", "Who works as a mail carrier?"),
    Fact("{name} vaccinated the puppies and bandaged the paw of a cat", "Who works as a veterinarian?"),
)
FAMILIES = (
    Family(
        "The locker of {name} opens with the number {value}",
        "Which number opens the locker of {name}?",
        "Which numbers open the locker of {name}?",
        range(1000, 10_000),
    ),
    Family(
        "The ticket that {name} bought bears the number {value}",
        "What number is on the ticket of {name}?",
        "Which numbers are on the tickets of {name}?",
        range(1000, 10_000),
    ),
)
PEOPLE_NAMES = (
    "Alder Voss", "Berthe Quill", "Corin Ashby", "Delphine Marsh", "Edgar Tolland", "Fenella Rusk",
    "Gustav Lindqvist", "Hester Pym", "Ivo Castellan", "Jolanda Brinkman", "Konrad Haas", "Lavinia Thorne",
    "Magnus Oakley", "Nerys Powell", "Otmar Zeller", "Petra Marek", "Rowena Locke", "Sigurd Aasen",
    "Tilde Moberg", "Vaclav Jelinek", "Wolfram Ebner", "Yvonne Chevalier", "Zeno Tadic", "Aurelia Banfi",
)
PEOPLE = Subject(
    names=PEOPLE_NAMES,
    openings=(
        "{name} moved into the street in a wet spring",
        "Few neighbours know {name} well",
        "{name} came here with two suitcases",
    ),
    relations=(
        Relation(
            "{short} learned to play the {value} as a child",
            "Which instrument did {name} learn to play?",
            ("oboe", "banjo", "ukulele", "clarinet", "accordion", "bassoon"),
        ),
        Relation(
            "{short} painted the front door {value}",
            "In which colour did {name} paint the front door?",
            ("turquoise", "magenta", "beige", "mauve", "khaki", "maroon"),
        ),
        Relation(
            "{short} spent the first wages on a {value}",
            "On what did {name} spend the first wages?",
            ("camera", "typewriter", "microscope", "tricycle", "gramophone", "telescope"),
        ),
        Relation(
            "{short} once got lost on the way to {value}",
            "On the way to which place did {name} once get lost?",
            ("Oslo", "Lima", "Nairobi", "Quebec", "Hanoi", "Perth"),
        ),
        Relation(
            "{short} never eats anything with {value}",
            "What does {name} never eat?",
            ("paprika", "ginger", "coconut", "broccoli", "rhubarb", "asparagus"),
        ),
    ),
)
# fmt: on

POOL = Pool(books=BOOKS, names=NAMES, facts=FACTS, families=FAMILIES, subjects=(PEOPLE,))
