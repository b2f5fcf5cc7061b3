package agents

import (
	"io"
	"os"
)

// ReadArchive reads an archive of an agent into a folder.
func ReadArchive(home *os.Root, from io.Reader) error { return (&importer{home: home}).read(from) }
