"""What the evaluation split's paragraphs are about."""

from server.pools.pool import Relation, Subject

# Words read best with many on a line.
# fmt: off
PEOPLE_NAMES = (
    "Arvid Holm", "Beata Szabo", "Cedric Maugham", "Dagny Rolf", "Elodie Perrin", "Flavio Conti",
    "Gwenda Tregear", "Halvard Stokke", "Ines Quadros", "Jarmila Novotna", "Kofi Mensah", "Lorelei Finch",
    "Maarten Dekker", "Nanette Juhl", "Orsolya Bognar", "Piotr Zawada", "Quirin Leitner", "Rhoswen Pryce",
    "Sandor Feher", "Thora Eldjarn", "Umberto Lodi", "Vesna Kralj", "Wilhelm Osten", "Ysolde Carrick",
    "Zygmunt Wilk", "Alasdair Munro", "Bronagh Keane", "Casper Nyholm", "Dimitra Kanakis", "Evander Sloane",
    "Fiametta Greco", "Gerwin Boersma", "Hedda Ravn", "Ignatius Corrigan", "Josephina Latham",
    "Kalinka Dobreva", "Lennart Bystrom", "Madalena Teles", "Niamh Galvin", "Ottokar Prasch",
    "Perpetua Lisle", "Ruairi Devlin", "Sunniva Hauge", "Tancredi Riva", "Ursel Wieland", "Vilmos Barta",
    "Yannick Moreau", "Zuzana Hlavac",
)
PEOPLE = Subject(
    names=PEOPLE_NAMES,
    openings=(
        "{name} came to this part of the country as a student and stayed",
        "Most people in the valley have met {name} at one time or another",
        "{name} lives at the end of a gravel road and gets little post",
        "When the mill closed, {name} was the last to leave it",
        "{name} has been in the local paper more than once",
        "The aunt who brought up {name} had been a nurse",
        "{name} never wanted to be anything but useful",
        "In the year of the flood, {name} lost a house and a boat",
        "{name} prefers to rise before everybody else",
        "Two of the sisters of {name} went abroad",
    ),
    relations=(
        Relation(
            "{short} studied {value} for six years",
            "What did {name} study for six years?",
            (
                "botany", "geology", "chemistry", "philology", "hydraulics", "economics", "linguistics",
                "zoology", "optics", "statistics", "cartography", "pharmacology",
            ),
        ),
        Relation(
            "{short} drives an old {value}",
            "Which old vehicle does {name} drive?",
            (
                "tractor", "minivan", "taxi", "bulldozer", "limousine", "ambulance", "moped", "jeep",
                "snowplough", "hearse", "camper", "hatchback",
            ),
        ),
        Relation(
            "{short} plays {value} every Saturday",
            "Which sport does {name} play every Saturday?",
            (
                "hockey", "tennis", "cricket", "badminton", "rugby", "golf", "squash", "volleyball", "polo",
                "handball", "baseball", "lacrosse",
            ),
        ),
        Relation(
            "{short} cannot stand the smell of {value}",
            "Which smell can {name} not stand?",
            (
                "gasoline", "mothballs", "coffee", "tobacco", "cabbage", "chlorine", "turpentine",
                "kerosene", "ammonia", "varnish", "sauerkraut", "herring",
            ),
        ),
        Relation(
            "{short} keeps the spare key under a {value}",
            "Under what does {name} keep the spare key?",
            (
                "flowerpot", "doormat", "birdbath", "wheelbarrow", "toolbox", "suitcase", "bathtub",
                "mailbox", "teapot", "saucepan", "deckchair", "sandbag",
            ),
        ),
        Relation(
            "{short} named the dog {value}",
            "What did {name} name the dog?",
            (
                "Biscuit", "Domino", "Waffles", "Ziggy", "Pickles", "Bingo", "Mocha", "Rocket", "Truffle",
                "Sparky", "Nacho", "Pumpernickel",
            ),
        ),
        Relation(
            "{short} has a cousin who lives in {value}",
            "In which city does the cousin of {name} live?",
            (
                "Vancouver", "Marseille", "Krakow", "Casablanca", "Brisbane", "Osaka", "Chicago", "Palermo",
                "Antwerp", "Bucharest", "Valparaiso", "Edinburgh",
            ),
        ),
        Relation(
            "{short} repairs {value} in a shed",
            "What does {name} repair in a shed?",
            (
                "umbrellas", "radios", "violins", "lawnmowers", "chandeliers", "accordions", "toasters",
                "parachutes", "saxophones", "carburettors", "jukeboxes", "prams",
            ),
        ),
        Relation(
            "{short} once won a prize for {value}",
            "For what did {name} once win a prize?",
            (
                "juggling", "yodelling", "poetry", "calligraphy", "gymnastics", "fencing", "photography",
                "typing", "embroidery", "ventriloquism", "topiary", "marquetry",
            ),
        ),
    ),
)
TOWNS_NAMES = (
    "Velmora", "Tarnwick", "Osterhavn", "Quillbrook", "Marrowdale", "Fennshire", "Cragmouth", "Brackenholt",
    "Selwyth", "Dunmarrow", "Korvala", "Hartlemere", "Pennigrave", "Uskerby", "Zellingrad", "Ambrefield",
    "Thornquay", "Wexcombe", "Ravensplatz", "Gildermoor", "Eskdalen", "Nettlecote", "Porthwyn",
    "Sallowfield", "Yarrowgate", "Ibbenstow", "Jorvendal", "Larkspire", "Moorsend", "Oldecastle",
    "Bellharbour", "Candlewick", "Drossenheim", "Frithby", "Hollowmere", "Kestrelford", "Lunnastad",
    "Mirefold", "Norrowick", "Staveling",
)
TOWNS = Subject(
    names=TOWNS_NAMES,
    openings=(
        "{name} lies where the hills meet the plain",
        "Travellers who change trains in {name} rarely leave the station",
        "The walls of {name} were pulled down a century ago",
        "{name} has lost half of its people since the mines shut",
        "On clear days the lights of {name} can be seen from the pass",
        "Maps of the coast seldom show {name}",
        "Nothing in {name} is open on a Monday",
        "The council of {name} meets in a former brewery",
    ),
    relations=(
        Relation(
            "{short} is known for its {value} festival",
            "Which festival is {name} known for?",
            (
                "pumpkin", "jazz", "sausage", "chocolate", "puppet", "snowman", "balloon", "cider",
                "mushroom", "bagpipe", "lantern", "potato",
            ),
        ),
        Relation(
            "The oldest factory in {short} makes {value}",
            "What does the oldest factory in {name} make?",
            (
                "pianos", "crayons", "zippers", "thermometers", "envelopes", "fireworks", "mattresses",
                "elevators", "porcelain", "corsets", "shoelaces", "dynamos",
            ),
        ),
        Relation(
            "The football club of {short} plays in {value}",
            "In which colour does the football club of {name} play?",
            (
                "orange", "pink", "lilac", "cyan", "burgundy", "indigo", "fuchsia", "teal", "violet",
                "vermillion", "ultramarine", "chartreuse",
            ),
        ),
        Relation(
            "The mayor of {short} was once arrested in {value}",
            "In which city was the mayor of {name} once arrested?",
            (
                "Reykjavik", "Toronto", "Manila", "Havana", "Jakarta", "Melbourne", "Nagoya", "Santiago",
                "Helsinki", "Montreal", "Bogota", "Dakar",
            ),
        ),
        Relation(
            "A statue of a {value} stands in the market square of {short}",
            "A statue of which animal stands in the market square of {name}?",
            (
                "penguin", "giraffe", "walrus", "squirrel", "panther", "dolphin", "crocodile", "rhinoceros",
                "zebra", "gorilla", "buffalo", "hippopotamus",
            ),
        ),
        Relation(
            "The river that runs through {short} is the {value}",
            "Which river runs through {name}?",
            (
                "Ilver", "Sorne", "Tamber", "Wenlow", "Crue", "Askel", "Druth", "Ombra", "Pellen", "Vasko",
                "Limmet", "Yarl",
            ),
        ),
        Relation(
            "Every child in {short} has to learn {value}",
            "Which language does every child in {name} have to learn?",
            (
                "Finnish", "Swahili", "Portuguese", "Icelandic", "Mandarin", "Welsh", "Turkish", "Bengali",
                "Korean", "Danish", "Maltese", "Catalan",
            ),
        ),
        Relation(
            "The best hotel in {short} was once a {value}",
            "What was the best hotel in {name} once?",
            (
                "monastery", "warehouse", "sanatorium", "cannery", "gymnasium", "casino", "barracks",
                "windmill", "hospital", "laundry", "tannery", "planetarium",
            ),
        ),
    ),
)
SHIPS_NAMES = (
    "Amberwake", "Bluewhistle", "Corvina", "Drumlinda", "Estrellita", "Farstrand", "Gossamer", "Halcyone",
    "Ibisette", "Jubilata", "Kittiwake", "Lodestarra", "Merriweather", "Nimbora", "Osprelle", "Polarine",
    "Quartermoon", "Rosamunda", "Seafarthing", "Tidewalker", "Undinette", "Vagabonda", "Windjammer",
    "Zephyrine", "Brightwater", "Clarabelle", "Duskrunner", "Evenglade", "Frostwing", "Glimmerfin",
)
SHIPS = Subject(
    names=SHIPS_NAMES,
    openings=(
        "The {name} has been at sea for eleven winters",
        "Harbour pilots speak of the {name} with some respect",
        "The {name} was sold twice before it had a name",
        "Nobody has ever seen the {name} in a hurry",
        "The {name} lost an anchor in the first storm of the year",
        "Not one of the owners of the {name} can swim",
    ),
    relations=(
        Relation(
            "The {short} carries {value} from port to port",
            "What does the {name} carry from port to port?",
            (
                "bananas", "cement", "rubber", "textbooks", "fertilizer", "plywood", "molasses",
                "aluminium", "petroleum", "sugar", "soybeans", "asphalt",
            ),
        ),
        Relation(
            "The captain of the {short} collects {value}",
            "What does the captain of the {name} collect?",
            (
                "postcards", "thimbles", "seashells", "keychains", "matchboxes", "teaspoons", "fossils",
                "meteorites", "corkscrews", "figurines", "banknotes", "autographs",
            ),
        ),
        Relation(
            "The {short} was built in {value}",
            "In which city was the {name} built?",
            (
                "Rotterdam", "Gdansk", "Busan", "Glasgow", "Nagasaki", "Trieste", "Belfast", "Shanghai",
                "Bilbao", "Hamburg", "Malmo", "Gothenburg",
            ),
        ),
        Relation(
            "The cook of the {short} is proud of the {value}",
            "Which dish is the cook of the {name} proud of?",
            (
                "dumplings", "risotto", "paella", "gazpacho", "omelettes", "chowder", "moussaka", "ravioli",
                "ratatouille", "cheesecake", "tacos", "curry",
            ),
        ),
        Relation(
            "The funnel of the {short} bears the picture of a {value}",
            "What is in the picture on the funnel of the {name}?",
            (
                "cactus", "pineapple", "comet", "mermaid", "seahorse", "snowflake", "dandelion",
                "butterfly", "hourglass", "lighthouse", "dragonfly", "clover",
            ),
        ),
        Relation(
            "The crew of the {short} spends its evenings at {value}",
            "At which game does the crew of the {name} spend its evenings?",
            (
                "backgammon", "poker", "scrabble", "monopoly", "charades", "billiards", "checkers",
                "mahjong", "rummy", "roulette", "solitaire", "dominoes",
            ),
        ),
        Relation(
            "The {short} was painted {value} last spring",
            "In which colour was the {name} painted last spring?",
            (
                "peach", "cobalt", "tangerine", "taupe", "aquamarine", "ecru", "plum", "cerise", "sepia",
                "periwinkle", "umber", "aubergine",
            ),
        ),
    ),
)
# fmt: on

SUBJECTS = (PEOPLE, TOWNS, SHIPS)
