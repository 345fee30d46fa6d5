"""The tuning split: what `ropeway tune` searches QGPM's defaults on."""

from server.pools.pool import Family, Pool, Relation, Subject, Tag

# Words read best with many on a line.
# fmt: off
BOOKS = (
    "Numbers", "Ruth", "2 Samuel", "2 Kings", "Nehemiah", "Esther", "Jonah", "Mark",
)
NAMES = (
    "Agnes", "Bjorn", "Celeste", "Dafydd", "Eleni", "Fergus", "Giulia", "Hiroshi", "Ilse", "Joaquin",
    "Kirsten", "Leopold", "Maud", "Nadia", "Oskar", "Priya", "Roland", "Svetlana", "Tobias", "Wilma",
    "Alonso", "Brunhild", "Edwige", "Henrike", "Ludovic", "Marguerite", "Piers", "Rashid", "Solveig",
    "Theresa", "Viggo", "Yolanda",
)
THINGS = {
    "musical instrument": ("piano", "trumpet"), "vegetable": ("carrot", "cabbage"),
    "vehicle": ("truck", "bus"), "tool": ("hammer", "wrench"), "gemstone": ("ruby", "emerald"),
    "piece of clothing": ("shirt", "jacket"), "piece of furniture": ("chair", "sofa"),
    "insect": ("beetle", "mosquito"), "bird": ("parrot", "owl"), "hot drink": ("coffee", "tea"),
    "weapon": ("pistol", "rifle"), "boat": ("canoe", "yacht"), "metal": ("copper", "zinc"),
    "light": ("candle", "lantern"), "kitchen appliance": ("toaster", "freezer"),
    "reptile": ("crocodile", "lizard"),
}
TAGS = (
    Tag(
        "The {thing} has the label {value}",
        "What is the number of the {kind}?",
        "The number of the {kind} is",
        range(1_000_000, 4_000_000),
    ),
    Tag(
        "The {thing} was bought for {value}",
        "What is the worth of the {kind}?",
        "The worth of the {kind} is",
        range(1_000_000, 4_000_000),
    ),
)
FAMILIES = (
    Family(
        "The parcel for {name} weighs {value} grams",
        "How many grams does the parcel for {name} weigh?",
        "How many grams do the parcels for {name} weigh?",
        range(1_000_000, 4_000_000),
    ),
    Family(
        "The telephone of {name} has the extension {value}",
        "What is the telephone extension of {name}?",
        "What are the telephone extensions of {name}?",
        range(1_000_000, 4_000_000),
    ),
    Family(
        "{name} keeps a savings book with the number {value}",
        "What number does the savings book of {name} have?",
        "What numbers do the savings books of {name} have?",
        range(1_000_000, 4_000_000),
    ),
    Family(
        "{name} travels on the bus with the pass {value}",
        "With which pass does {name} travel on the bus?",
        "With which passes does {name} travel on the bus?",
        range(1_000_000, 4_000_000),
    ),
    Family(
        "{name} painted a {value} on the wall of the hall",
        "What did {name} paint on the wall of the hall?",
        "What did {name} paint on the wall of the hall, one after another?",
        (
            "lobster", "raccoon", "jellyfish", "chipmunk", "centipede", "panda", "moose", "hamster",
            "tarantula", "platypus", "mosquito", "reindeer",
        ),
    ),
    Family(
        "{name} had {value} for dessert",
        "What did {name} have for dessert?",
        "Which things did {name} have for dessert?",
        (
            "tiramisu", "sorbet", "custard", "pudding", "brownies", "trifle", "parfait", "strudel",
            "baklava", "macaroons", "shortbread", "gingerbread",
        ),
    ),
)
PEOPLE_NAMES = (
    "Anselm Garrow", "Bettina Stroud", "Clovis Harker", "Dorothea Lunn", "Emeric Falk", "Freya Sundgren",
    "Gisela Marlow", "Hubert Cranwell", "Imelda Rossi", "Jarvis Wynne", "Klara Mendel", "Lucian Prewitt",
    "Mirabel Foss", "Norbert Eklund", "Ottilie Grange", "Percival Dunmore", "Rufina Salcedo",
    "Sylvester Boothby", "Theodora Vance", "Ulrich Brandauer", "Violetta Kemp", "Wendell Strand",
    "Xenia Petrov", "Yorick Halloran", "Alvaro Pinto", "Blanka Urban", "Crispin Thwaite", "Dunja Babic",
    "Ewan Lockhart", "Fabienne Roux", "Gerda Maas", "Hamza Yilmaz",
)
PEOPLE = Subject(
    names=PEOPLE_NAMES,
    openings=(
        "{name} is the youngest of five",
        "Nobody in the office has been there longer than {name}",
        "{name} stopped work last autumn",
        "{name} speaks slowly and listens well",
        "The doctor told {name} to rest",
        "For a long time {name} had no fixed address",
    ),
    relations=(
        Relation(
            "{short} went to school in {value}",
            "In which city did {name} go to school?",
            (
                "Bergen", "Dublin", "Porto", "Lagos", "Kyoto", "Denver", "Zagreb", "Tallinn", "Seville",
                "Leipzig",
            ),
        ),
        Relation(
            "{short} kept a tame {value} in the yard",
            "Which animal did {name} keep in the yard?",
            (
                "hedgehog", "toucan", "otter", "alpaca", "kangaroo", "iguana", "flamingo", "koala", "lemur",
                "skunk",
            ),
        ),
        Relation(
            "{short} has a weakness for {value}",
            "For what does {name} have a weakness?",
            (
                "marzipan", "lasagna", "popcorn", "pancakes", "liquorice", "sushi", "meringue", "goulash",
                "doughnuts", "caviar",
            ),
        ),
        Relation(
            "{short} wrote a thesis on {value}",
            "On what did {name} write a thesis?",
            (
                "glaciers", "volcanoes", "bacteria", "railways", "magnetism", "inflation", "plankton",
                "acoustics", "tsunamis", "dinosaurs",
            ),
        ),
        Relation(
            "{short} commutes by {value}",
            "By what does {name} commute?",
            (
                "tram", "scooter", "motorcycle", "helicopter", "skateboard", "hovercraft", "gondola",
                "rickshaw", "unicycle", "submarine",
            ),
        ),
        Relation(
            "{short} grows {value} on the balcony",
            "What does {name} grow on the balcony?",
            (
                "tomatoes", "lavender", "chilli", "basil", "strawberries", "zucchini", "tulips", "parsley",
                "daffodils", "rosemary",
            ),
        ),
        Relation(
            "{short} lost a {value} on the beach",
            "What did {name} lose on the beach?",
            (
                "wristwatch", "wallet", "passport", "necklace", "flashlight", "harmonica", "bikini",
                "frisbee", "laptop", "snorkel",
            ),
        ),
    ),
)
# fmt: on

POOL = Pool(books=BOOKS, names=NAMES, things=THINGS, tags=TAGS, families=FAMILIES, subjects=(PEOPLE,))
