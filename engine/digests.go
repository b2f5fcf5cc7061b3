package engine

// FileDigest is what a file holds.
type FileDigest struct {
	// There says that there is a file, or a link that leads out of the folder.
	There bool
	// SHA256 is of all of the file; nil, if it was not read.
	SHA256 []byte
}
