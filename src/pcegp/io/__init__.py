"""Files: model archives, tables, and how the columns of a table become numbers."""
