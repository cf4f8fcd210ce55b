"""CSV in steps: it knows at which character the next row begins, so that reading can go on from there."""

import csv

import windlass

MOST_COLUMNS = 1000


class Reader:
    def __init__(self, text: str, delimiter: str = ",") -> None:
        if len(delimiter) != 1 or delimiter in '"\r\n':
            raise windlass.Fatal("delimiter must be one character, and no quote")
        self._text = text
        self._delimiter = delimiter
        self.offset = 1 if text.startswith("\ufeff") else 0

    def at_end(self) -> bool:
        return self.offset >= len(self._text)

    def header(self) -> list[str]:
        for cells in self.rows(1):
            if len(cells) > MOST_COLUMNS:
                raise windlass.Fatal(f"more than {MOST_COLUMNS} columns")
            if len(set(cells)) < len(cells):
                raise windlass.Fatal("two columns have the same name")
            return cells
        raise windlass.Fatal("the CSV is empty: its first row should name the columns")

    def rows(self, most: int):
        """Up to `most` rows. Empty lines are none."""
        lines = csv.reader(self._lines(), delimiter=self._delimiter, strict=True)
        try:
            for cells in lines:
                if cells:
                    yield cells
                    most -= 1
                if most == 0:
                    return
        except csv.Error as error:
            raise windlass.Fatal(f"the CSV cannot be read near character {self.offset}: {error}") from None

    def _lines(self):
        """The lines from here on. The csv module takes as many as a row has, so after each row `offset` is where the next begins."""
        while not self.at_end():
            end = self._text.find("\n", self.offset) + 1 or len(self._text)
            line = self._text[self.offset : end]
            self.offset = end
            yield line
