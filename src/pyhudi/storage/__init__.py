"""Where tables live: the Storage protocol, and its stores on local disk, in memory and on object stores."""
