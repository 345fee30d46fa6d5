"""The tuning split."""

from server.pools.pool import Fact, Family, Pool, Relation, Subject

BOOKS = (
    "Numbers", "Ruth", "2 Samuel", "2 Kings", "Nehemiah", "Esther", "Jonah", "Mark",
)  # fmt: skip
NAMES = (
    "Agnes", "Bjorn", "Celeste", "Dafydd", "Eleni", "Fergus", "Giulia", "Hiroshi", "Ilse", "Joaquin",
    "Kirsten", "Leopold", "Maud", "Nadia", "Oskar", "Priya", "Roland", "Svetlana", "Tobias", "Wilma",
)  # fmt: skip
PEOPLE_NAMES = (
    "Anselm Garrow", "Bettina Stroud", "Clovis Harker", "Dorothea Lunn", "Emeric Falk",
    "Freya Sundgren", "Gideonette Marlow", "Hubert Crane", "Imelda Rossi", "Jasper Wynne",
    "Klara Mendel", "Lucian Prewitt", "Mirabel Foss", "Norbert Eklund", "Ottilie Grange",
    "Percival Dunmore", "Rufina Salcedo", "Sylvester Booth", "Theodora Vance", "Ulrich Brandauer",
    "Violetta Kemp", "Wendell Strand", "Xenia Petrov", "Yorick Halloran",
)  # fmt: skip
PEOPLE = Subject(
    names=PEOPLE_NAMES,
    openings=(
        "{name} is the youngest of five",
        "Nobody in the office has been there longer than {name}",
        "{name} retired last autumn",
        "{name} speaks slowly and listens well",
    ),
    relations=(
        Relation(
            "{short} went to school in {value}",
            "In which place did {name} go to school?",
            ("Bergen", "Dublin", "Porto", "Lagos", "Kyoto", "Denver", "Zagreb", "Tallinn"),
        ),
        Relation(
            "{short} kept a tame {value} in the yard",
            "Which animal did {name} keep in the yard?",
            ("hedgehog", "toucan", "badger", "otter", "alpaca", "kangaroo", "iguana", "flamingo"),
        ),
        Relation(
            "{short} has a weak spot for {value}",
            "What does {name} have a weak spot for?",
            ("marzipan", "lasagna", "popcorn", "pancakes", "liquorice", "sushi", "meringue", "goulash"),
        ),
        Relation(
            "{short} wrote a thesis on {value}",
            "On what did {name} write a thesis?",
            (
                "glaciers",
                "volcanoes",
                "bacteria",
                "railways",
                "magnetism",
                "inflation",
                "plankton",
                "acoustics",
            ),
        ),
        Relation(
            "{short} travels to work by {value}",
            "By what does {name} travel to work?",
            (
                "tram",
                "scooter",
                "motorcycle",
                "helicopter",
                "skateboard",
                "hovercraft",
                "gondola",
                "rickshaw",
            ),
        ),
        Relation(
            "{short} grows {value} on the balcony",
            "What does {name} grow on the balcony?",
            ("tomatoes", "lavender", "chilli", "basil", "strawberries", "zucchini", "tulips", "parsley"),
        ),
    ),
)
POOL = Pool(
    books=BOOKS,
    names=NAMES,
    facts=(
        Fact(
            "{name} came home with chalk on both hands and sore forearms from the wall", "Who likes climbing?"
        ),
        Fact("{name} tuned all four strings and rubbed rosin on the bow", "Who likes playing the violin?"),
        Fact(
            "{name} lost a bishop and then resigned after the queen was trapped", "Who likes playing chess?"
        ),
        Fact(
            "{name} waited in the reeds with binoculars for the herons to return", "Who likes watching birds?"
        ),
        Fact(
            "{name} polished the mirror and found the rings of Saturn after midnight", "Who likes astronomy?"
        ),
        Fact("{name} put the kiln at nine hundred degrees and glazed the bowls", "Who likes making pottery?"),
        Fact("{name} cast on eighty stitches and finished the second sock", "Who likes knitting?"),
        Fact("{name} checked the air in the tank and sank slowly past the reef", "Who likes diving?"),
        Fact("{name} waxed both boards and took the first lift up to the snow", "Who likes skiing?"),
        Fact("{name} mixed ochre with linseed oil and stretched a new canvas", "Who likes painting?"),
        Fact("{name} patched the inner tube and oiled the chain before the long ride", "Who likes cycling?"),
        Fact("{name} saddled the mare and cleaned her hooves", "Who likes riding horses?"),
        Fact("{name} learned the steps of the tango in front of the tall mirror", "Who likes dancing?"),
        Fact("{name} hoisted the jib as soon as the wind came round", "Who likes sailing?"),
        Fact(
            "{name} hinged a misprinted penny red into the last page of the album",
            "Who likes collecting stamps?",
        ),
        Fact("{name} folded the paper crane forty times until the wings lay flat", "Who likes origami?"),
    ),
    families=(
        Family(
            "The parcel for {name} weighs {value} grams",
            "How many grams does the parcel for {name} weigh?",
            "How many grams do the parcels for {name} weigh?",
            range(10_000, 100_000),
        ),
        Family(
            "The telephone of {name} has the extension {value}",
            "What is the telephone extension of {name}?",
            "What are the telephone extensions of {name}?",
            range(10_000, 100_000),
        ),
    ),
    subjects=(PEOPLE,),
)
