package fs

// newProtocol returns what parses a session's requests.
func newProtocol(s *session) handler { return &protocol{s} }
