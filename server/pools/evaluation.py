"""The evaluation split."""

from server.pools.pool import Fact, Family, Pool, Relation, Subject

BOOKS = ("Leviticus", "Deuteronomy", "Job", "Ezekiel", "Acts", "John", "Revelation")
NAMES = ("Anneke", "Benedikt", "Chiara", "Dorian", "Eskil", "Fatima", "Gunnar", "Helga", "Isolde", "Jasmin")
POOL = Pool(
    books=BOOKS,
    names=NAMES,
    facts=(
        Fact("{name} can see the Eiffel Tower from the kitchen", "Who lives in Paris?"),
        Fact("{name} came down the stairs on crutches", "Who broke a leg?"),
        Fact("{name} wiped the cage and taught it to whistle", "Who owns a parrot?"),
        Fact("{name} bought two prams of the same make", "Who has twins?"),
    ),
    families=(
        Family(
            "The bank account of {name} holds {value} crowns",
            "How many crowns does the bank account of {name} hold?",
            "How many crowns do the bank accounts of {name} hold?",
            range(1_000_000, 10_000_000),
        ),
    ),
    subjects=(
        Subject(
            names=(
                "Arvid Holm",
                "Beata Szabo",
                "Cedric Maugham",
                "Dagny Rolf",
                "Elodie Perrin",
                "Flavio Conti",
            ),
            openings=("{name} has many friends",),
            relations=(
                Relation("{short} plays {value}", "What does {name} play?", ("hockey", "tennis", "cricket")),
                Relation(
                    "{short} drinks {value}", "What does {name} drink?", ("cocoa", "lemonade", "espresso")
                ),
                Relation(
                    "{short} drives a {value}", "What does {name} drive?", ("tractor", "minivan", "taxi")
                ),
                Relation(
                    "{short} sells {value}", "What does {name} sell?", ("umbrellas", "bicycles", "carpets")
                ),
            ),
        ),
    ),
)
