"""The calibration split: what `ropeway calibrate` chooses heads by."""

from server.pools.pool import Family, Pool, Relation, Subject, Tag

# Words read best with many on a line.
# fmt: off
BOOKS = (
    "Genesis", "Exodus", "Joshua", "Judges", "1 Samuel", "1 Kings", "2 Chronicles", "Daniel",
)
NAMES = (
    "Amalia", "Bertrand", "Cosima", "Dmitri", "Elke", "Farouk", "Greta", "Hamish", "Ingrid", "Jorge",
    "Katinka", "Lorenzo", "Mirela", "Nikhil", "Odette", "Pavel", "Quentin", "Rosalind", "Sanjay", "Tamsin",
)
THINGS = {
    "fruit": ("banana", "mango"), "flower": ("tulip", "daisy"), "fish": ("salmon", "trout"),
    "medicine": ("aspirin", "penicillin"), "tree": ("oak", "maple"), "aircraft": ("helicopter", "glider"),
    "piece of jewelry": ("necklace", "bracelet"), "farm animal": ("cow", "pig"),
    "spice": ("cinnamon", "pepper"), "piece of headgear": ("helmet", "turban"), "toy": ("doll", "kite"),
    "piece of sports equipment": ("racket", "skateboard"), "fabric": ("silk", "cotton"),
    "baked good": ("pie", "cake"), "building": ("castle", "hotel"), "sea animal": ("whale", "octopus"),
}
TAGS = (
    Tag(
        "The {thing} is marked {value}",
        "What is the number on the {kind}?",
        "The number on the {kind} is",
        range(1000, 10_000),
    ),
    Tag(
        "The {thing} costs {value}",
        "What is the price of the {kind}?",
        "The price of the {kind} is",
        range(1000, 10_000),
    ),
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

POOL = Pool(books=BOOKS, names=NAMES, things=THINGS, tags=TAGS, families=FAMILIES, subjects=(PEOPLE,))
