"""The three best scores of each player: list state, replaced and appended to."""

from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

SCHEMA = "player string, score int, game string"
ROWS = [{"player": f"p{n % 4}", "score": n * 37 % 101, "game": f"g{n % 5}"} for n in range(40)]
LAST_PER = ("player",)


class BestScores(StatefulProcessor):
    def init(self, handle: StatefulProcessorHandle) -> None:
        schema = StructType([StructField("score", IntegerType()), StructField("game", StringType())])
        self.best = handle.getListState("best", schema)
        self.games = handle.getListState("games", "game string")

    def handleInputRows(self, key, rows, timerValues):
        best = list(self.best.get()) if self.best.exists() else []
        for row in rows:
            best.append((row.score, row.game))
            self.games.appendValue((row.game,))
        best = sorted(best, reverse=True)[:3]
        self.best.put(best)
        games = sorted({game for (game,) in self.games.get()})
        yield Row(player=key[0], scores=[score for score, _ in best], games=games)

    def close(self) -> None:
        pass


def query(scores: DataFrame) -> DataFrame:
    return scores.groupBy("player").transformWithState(
        BestScores(), "player string, scores array<int>, games array<string>", "Update", "None"
    )
