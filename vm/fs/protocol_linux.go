package fs

import (
	"io"
	"log"

	"github.com/hanwen/go-fuse/v2/fuse"

	"osaurus-sandbox/vm"
)

// newProtocol returns what parses a session's requests: go-fuse, but for streams.
func newProtocol(s *session) handler {
	if s.dev.streamed.Load() {
		return &protocol{s}
	}
	extra := uint64(fuse.CAP_ATOMIC_O_TRUNC | fuse.CAP_READDIRPLUS_AUTO | fuse.CAP_ASYNC_DIO |
		// There are no set-user-ID bits to clear, so this is free and saves the guest a GETXATTR
		// for each write.
		fuse.CAP_HANDLE_KILLPRIV_V2)
	var disabled uint64
	if s.policy != vm.OwnershipSubtree {
		// Attributes expire at once, so this would ask at each read. Cached data is checked at open
		// instead.
		disabled = fuse.CAP_AUTO_INVAL_DATA
	}
	return fuse.NewProtocolServer(s.dev.wrap(s), &fuse.MountOptions{
		MaxWrite:      maxData,
		MaxReadAhead:  maxData,
		MaxBackground: maxBackground,
		// A link's target never changes. But without birth times, a new link may be taken for an
		// old one.
		EnableSymlinkCaching: s.dev.rules.root.born != 0,
		ExtraCapabilities:    extra,
		DisabledCapabilities: disabled,
		Logger:               log.New(io.Discard, "", 0), // discarded: the guest could flood the log
		PanicHandler: func(r any) fuse.Status {
			s.dev.panicked(r)
			return fuse.EIO
		},
	})
}
