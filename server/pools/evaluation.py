"""The evaluation split: what `loadtests` measures with."""

from server.pools.evaluation_subjects import SUBJECTS
from server.pools.pool import Family, Pool, Tag

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
THINGS = {
    "big cat": ("tiger", "leopard"), "alcoholic drink": ("whiskey", "beer"),
    "writing instrument": ("pencil", "crayon"), "shellfish": ("crab", "shrimp"),
    "nut": ("almond", "walnut"), "grain": ("barley", "rice"), "shoe": ("boot", "sandal"),
    "book": ("dictionary", "atlas"), "electronic device": ("laptop", "camera"),
    "cheese": ("cheddar", "mozzarella"), "container": ("bucket", "barrel"),
    "piece of luggage": ("suitcase", "backpack"), "optical instrument": ("telescope", "microscope"),
    "rodent": ("squirrel", "beaver"), "timepiece": ("clock", "watch"), "piece of cutlery": ("spoon", "fork"),
    "piece of bedding": ("pillow", "blanket"),
}
TAGS = (
    Tag(
        "The {thing} weighs {value}",
        "What is the mass of the {kind}?",
        "The mass of the {kind} is",
        range(4_000_000, 10_000_000),
    ),
    Tag(
        "The {thing} was sold for {value}",
        "Which sum was paid for the {kind}?",
        "The sum paid for the {kind} was",
        range(4_000_000, 10_000_000),
    ),
)
FAMILIES = (
    Family(
        "{name} rented a storage unit with the number {value}",
        "What is the number of the storage unit that {name} rented?",
        "What are the numbers of all storage units that {name} rented?",
        range(4_000_000, 10_000_000),
    ),
    Family(
        "An invoice for {name} was filed under {value}",
        "Under which number was an invoice for {name} filed?",
        "Under which numbers were all invoices for {name} filed?",
        range(4_000_000, 10_000_000),
    ),
    Family(
        "{name} entered the contest with the code {value}",
        "With which code did {name} enter the contest?",
        "With which codes did {name} enter the contest?",
        range(4_000_000, 10_000_000),
    ),
    Family(
        "{name} sold a machine with the serial number {value}",
        "What is the serial number of the machine that {name} sold?",
        "What are the serial numbers of all machines that {name} sold?",
        range(4_000_000, 10_000_000),
    ),
    Family(
        "The museum lent {name} a coin registered as {value}",
        "As which number is the coin registered that the museum lent {name}?",
        "As which numbers are all coins registered that the museum lent {name}?",
        range(4_000_000, 10_000_000),
    ),
    Family(
        "{name} booked a flight under the reference {value}",
        "Under which reference did {name} book a flight?",
        "Under which references did {name} book flights?",
        range(4_000_000, 10_000_000),
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

POOL = Pool(books=BOOKS, names=NAMES, things=THINGS, tags=TAGS, families=FAMILIES, subjects=SUBJECTS)
