"""The evaluation split: what `loadtests` measures with."""

from server.pools.evaluation_subjects import SUBJECTS
from server.pools.pool import Fact, Family, Pool

# Words read best with many on a line.
# fmt: off
BOOKS = (
    "Leviticus", "Deuteronomy", "Job", "Ezekiel", "Acts", "John", "Romans", "Hebrews", "Revelation",
)
NAMES = (
    "Anneke", "Benedikt", "Chiara", "Dorian", "Eskil", "Fatima", "Gunnar", "Helga", "Isolde", "Jasmin",
    "Kasimir", "Leonie", "Marisol", "Nestor", "Octavia", "Philippa", "Ragnhild", "Stellan", "Tatiana",
    "Valentin", "Wanda", "Xaver", "Yusuf", "Zdenka", "Adebayo", "Birgit", "Cormac", "Desmond", "Esmeralda",
    "Florian", "Gwendolyn", "Horatio", "Imogen", "Jerzy", "Keiko", "Ludmila", "Mateus", "Noemi", "Oriol",
    "Pilar", "Renzo", "Saskia", "Torvald", "Ulrika", "Vikram", "Winifred", "Yvette", "Zoltan", "Branko",
    "Clotilde",
)
FACTS = (
    Fact("{name} sees the Eiffel Tower from the kitchen window", "Who lives in Paris?"),
    Fact("{name} passes the Brandenburg Gate on the way to the office", "Who lives in Berlin?"),
    Fact("{name} buys vegetables at the foot of the Rialto Bridge", "Who lives in Venice?"),
    Fact("{name} hears Big Ben strike from the bedroom", "Who lives in London?"),
    Fact("{name} jogs around the walls of the Kremlin every morning", "Who lives in Moscow?"),
    Fact("{name} takes every visitor on the ferry to the Statue of Liberty", "Who lives in New York?"),
    Fact(
        "{name} waters the geraniums on a balcony opposite the Sagrada Familia",
        "Who lives in Barcelona?",
    ),
    Fact("{name} rents a flat above the sands of Copacabana", "Who lives in Rio de Janeiro?"),
    Fact("{name} pushes the pram by the Little Mermaid each afternoon", "Who lives in Copenhagen?"),
    Fact("{name} rides across the Golden Gate Bridge to the laboratory", "Who lives in San Francisco?"),
    Fact("{name} watches the pyramids of Giza turn red from the roof", "Who lives in Cairo?"),
    Fact("{name} parks the van in the shade of the Taj Mahal", "Who lives in India?"),
    Fact("{name} came down the stairs on crutches with one foot in plaster", "Who has a broken leg?"),
    Fact("{name} sneezes as soon as the birches shed their pollen", "Who suffers from hay fever?"),
    Fact("{name} pricks a fingertip and injects insulin before every meal", "Who has diabetes?"),
    Fact("{name} pushed the steak aside and asked for the beans alone", "Who is a vegetarian?"),
    Fact("{name} picks each shrimp out of the soup for fear of a rash", "Who has an allergy to seafood?"),
    Fact("{name} will not step onto a terrace above the second floor", "Who is afraid of heights?"),
    Fact("{name} lies awake until four and counts the cracks in the ceiling", "Who suffers from insomnia?"),
    Fact("{name} leaned over the rail of the boat, green in the face", "Who gets seasick?"),
    Fact("{name} pressed an ice pack to the swollen cheek and ate only yoghurt", "Who has a toothache?"),
    Fact("{name} wiped down the perch and taught it to whistle the anthem", "Who owns a parrot?"),
    Fact("{name} scooped out the litter box and filled the saucer with cream", "Who owns a cat?"),
    Fact(
        "{name} scattered flakes over the water and scrubbed the glass of the bowl",
        "Who keeps goldfish?",
    ),
    Fact("{name} warmed the terrarium and thawed a mouse for the python", "Who keeps a snake?"),
    Fact("{name} ordered two cots and a double stroller", "Who is expecting twins?"),
    Fact("{name} tried on the white gown and sent out the invitations", "Who is getting married?"),
    Fact("{name} handed in the badge and was given a gold watch after forty years", "Who has retired?"),
    Fact("{name} packed the last of the rooms into boxes and gave back the keys", "Who is moving away?"),
    Fact("{name} grew up in Budapest and still counts in the words learned there", "Who speaks Hungarian?"),
    Fact("{name} reads haiku in the original every evening", "Who understands Japanese?"),
    Fact("{name} unplugs each lamp and hangs the laundry out to dry", "Who saves electricity?"),
    Fact("{name} lit the next one from the stub of the last", "Who is a heavy smoker?"),
    Fact("{name} asked for a sixth espresso before noon", "Who drinks too much coffee?"),
    Fact("{name} sits in the front row whenever Puccini is on", "Who loves opera?"),
    Fact(
        "{name} stepped into the booth and dropped a folded ballot into the box",
        "Who took part in an election?",
    ),
    Fact(
        "{name} showed a card at the gate of the campus and hurried to the lecture",
        "Who goes to university?",
    ),
    Fact(
        "{name} blew into the tube and had to leave the car at the roadside",
        "Who was stopped for drunk driving?",
    ),
    Fact("{name} stood in the dock and waited for the jury to return", "Who is on trial?"),
    Fact(
        "{name} bent down on the highest step of the podium to receive the medal",
        "Who came first in the competition?",
    ),
    Fact("{name} compared all six numbers twice and screamed at the television", "Who won the lottery?"),
    Fact("{name} unrolled the mat and went from downward dog into the cobra", "Who practises yoga?"),
    Fact("{name} was asked for an autograph at every table of the restaurant", "Who is famous?"),
    Fact("{name} borrowed from three banks and hides from the bailiff", "Who is deep in debt?"),
    Fact("{name} floated to the hatch and looked down on the whole blue globe", "Who has been to space?"),
    Fact("{name} wears gloves and two scarves even in June", "Who freezes easily?"),
    Fact(
        "{name} slid the unpaid lipstick into a sleeve and left the store",
        "Who is guilty of shoplifting?",
    ),
    Fact("{name} crossed out the first chapter and called the publisher", "Who is writing a novel?"),
)
FAMILIES = (
    Family(
        "{name} rented a storage unit with the number {value}",
        "What is the number of the storage unit that {name} rented?",
        "What are the numbers of all storage units that {name} rented?",
        range(1_000_000, 10_000_000),
    ),
    Family(
        "An invoice for {name} was filed under {value}",
        "Under which number was an invoice for {name} filed?",
        "Under which numbers were all invoices for {name} filed?",
        range(1_000_000, 10_000_000),
    ),
    Family(
        "{name} entered the contest with the code {value}",
        "With which code did {name} enter the contest?",
        "With which codes did {name} enter the contest?",
        range(1_000_000, 10_000_000),
    ),
    Family(
        "{name} sold a machine with the serial number {value}",
        "What is the serial number of the machine that {name} sold?",
        "What are the serial numbers of all machines that {name} sold?",
        range(1_000_000, 10_000_000),
    ),
    Family(
        "The museum lent {name} a coin registered as {value}",
        "As which number is the coin registered that the museum lent {name}?",
        "As which numbers are all coins registered that the museum lent {name}?",
        range(1_000_000, 10_000_000),
    ),
    Family(
        "{name} booked a flight under the reference {value}",
        "Under which reference did {name} book a flight?",
        "Under which references did {name} book flights?",
        range(1_000_000, 10_000_000),
    ),
    Family(
        "{name} once used the password {value}",
        "Which password did {name} once use?",
        "Which passwords did {name} once use?",
        (
            "marmalade", "harpsichord", "catapult", "xylophone", "tarpaulin", "pendulum", "labyrinth",
            "quicksilver", "gargoyle", "bumblebee", "zeppelin", "porcupine", "sassafras", "kaleidoscope",
            "boomerang", "avalanche",
        ),
    ),
    Family(
        "{name} shipped a crate of {value} to the north",
        "What did {name} ship to the north by the crate?",
        "Which goods did {name} ship to the north by the crate?",
        (
            "apricots", "walnuts", "cashews", "lampshades", "trombones", "stethoscopes", "tweezers",
            "cufflinks", "doorknobs", "hairpins", "paintbrushes", "toothbrushes", "mousetraps",
            "spectacles", "thermostats", "clarinets",
        ),
    ),
    Family(
        "{name} planted a {value} behind the house",
        "Which tree did {name} plant behind the house?",
        "Which trees did {name} plant behind the house?",
        (
            "magnolia", "sequoia", "mango", "baobab", "jacaranda", "hawthorn", "larch", "mimosa", "rowan",
            "tamarind", "laburnum", "hornbeam", "catalpa", "ginkgo", "papaya", "redwood",
        ),
    ),
    Family(
        "{name} photographed a {value} at dawn",
        "Which bird did {name} photograph at dawn?",
        "Which birds did {name} photograph at dawn?",
        (
            "nightingale", "puffin", "woodpecker", "kingfisher", "magpie", "goldfinch", "pheasant",
            "hummingbird", "kestrel", "nuthatch", "wagtail", "cockatoo", "starling", "budgerigar",
            "chaffinch", "blackbird",
        ),
    ),
)
# fmt: on

POOL = Pool(books=BOOKS, names=NAMES, facts=FACTS, families=FAMILIES, subjects=SUBJECTS)
