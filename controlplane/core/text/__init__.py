"""Text for people: values, records and plans on a line, with secrets hidden."""
