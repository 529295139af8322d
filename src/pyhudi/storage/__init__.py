"""Access to the files of tables: the Storage protocol, and its stores on local disk, in memory and on object stores."""
