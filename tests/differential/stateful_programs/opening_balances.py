"""Accounts that begin with the balance of an older system: initial state."""

from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

SCHEMA = "account int, amount bigint"
ROWS = [{"account": n % 4, "amount": n} for n in range(1, 21)]
LAST_PER = ("account",)


class Balance(StatefulProcessor):
    def init(self, handle: StatefulProcessorHandle) -> None:
        self.balance = handle.getValueState("balance", "balance bigint")

    def handleInitialState(self, key, initialState, timerValues):
        self.balance.update((initialState.opening,))

    def handleInputRows(self, key, rows, timerValues):
        balance = self.balance.get()[0] if self.balance.exists() else 0
        balance += sum(row.amount for row in rows)
        self.balance.update((balance,))
        yield Row(account=key[0], balance=balance)

    def close(self) -> None:
        pass


def query(bookings: DataFrame) -> DataFrame:
    opening = bookings.sparkSession.createDataFrame([(0, 1000), (2, -50), (9, 7)], "account int, opening bigint")
    return bookings.groupBy("account").transformWithState(
        statefulProcessor=Balance(),
        outputStructType="account int, balance bigint",
        outputMode="Update",
        timeMode="None",
        initialState=opening.groupBy("account"),
    )
