//go:build linux

package room

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/guest/guestpb"
)

const (
	// systemBundle has the certificates that the programs of Alpine and Debian trust.
	systemBundle = "etc/ssl/certs/ca-certificates.crt"
	// localCertificate is what update-ca-certificates adds to the bundle when it makes it again. A
	// mount over the bundle would make that fail, and with it the installation of packages.
	localCertificate = "usr/local/share/ca-certificates/osaurus-sandbox.crt"
	// maxBundle bounds the bundle, which programs of the room can write. Debian's has 220 KiB.
	maxBundle = 4 << 20
)

// setTrust makes the room's programs trust the certificate of its spec. A room in which they cannot
// works all the same.
func (r *Room) setTrust() {
	var err error
	if r.trusted, err = r.trust(r.spec.Trust); err == nil {
		return
	}
	if lack := fmt.Sprintf("its programs do not trust the gateway's certificate: %v", err); !slices.Contains(r.lacks, lack) {
		r.lacks = append(slices.Clone(r.lacks), lack)
	}
}

// trust adds a certificate to those that the room's system trusts, and reports whether it is among
// them.
func (r *Room) trust(t *guestpb.Trust) (bool, error) {
	if t == nil {
		return false, nil
	}
	root, err := unix.Open(fmt.Sprintf("/proc/%d/root", r.init.PID()), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false, err
	}
	defer unix.Close(root)
	return trustBelow(root, t.Certificate)
}

// trustBelow is trust for the root that is open as a descriptor. The room's programs can have put
// anything there.
func trustBelow(root int, certificate []byte) (bool, error) {
	if has, err := readBelow(root, localCertificate, maxBundle); err != nil || !bytes.Equal(has, certificate) { // or each room would seem to have changed
		if err := replaceBelow(root, localCertificate, certificate); err != nil {
			return false, err
		}
	}
	bundle, err := readBelow(root, systemBundle, maxBundle)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil // it is made when ca-certificates is installed
	}
	if err != nil || bytes.Contains(bundle, certificate) {
		return err == nil, err
	}
	if len(bundle) > 0 && !bytes.HasSuffix(bundle, []byte("\n")) {
		bundle = append(bundle, '\n')
	}
	if err := replaceBelow(root, systemBundle, append(bundle, certificate...)); err != nil {
		return false, err
	}
	return true, nil
}
