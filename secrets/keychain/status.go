package keychain

import (
	"errors"
	"fmt"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/secrets"
)

// status is what the Keychain answers: an OSStatus of Apple's Security
// framework.
type status int

// The statuses that mean something to those who ask, from SecBase.h.
const (
	userCanceled          status = -128
	notAvailable          status = -25291
	authFailed            status = -25293
	noSuchKeychain        status = -25294
	invalidKeychain       status = -25295
	duplicateItem         status = -25299
	itemNotFound          status = -25300
	interactionNotAllowed status = -25308
	noDefaultKeychain     status = -25307
	noAccessForItem       status = -25243
	interactionRequired   status = -25315
)

func (s status) Error() string { return fmt.Sprintf("OSStatus %d", int(s)) }

const (
	unlockAdvice = "Run: security unlock-keychain (over ssh and from launchd macOS cannot ask for the password)"
	allowAdvice  = "Try again and allow it. A program that was built or signed anew is another one to the Keychain, which asks again; one with a Developer ID stays the same."
	absentAdvice = "Keep secrets where this system does: osaurus-sandbox config set secrets=secret-service, or in an encrypted file, which is weaker: osaurus-sandbox config set secrets=file"
	repairAdvice = "Log in to the desktop, and see in Keychain Access that there is a default keychain"
)

// explain says of a status which reason it is.
func explain(op, subject string, err error) error {
	if err == nil {
		return nil
	}
	s, _ := errors.AsType[status](err)
	switch s {
	case itemNotFound:
		return secrets.Missing.Fault(op, subject, err)
	case interactionNotAllowed, interactionRequired:
		return secrets.Locked.Fault(op, subject, err).Advise(unlockAdvice)
	case userCanceled, authFailed, noAccessForItem:
		return secrets.Denied.Fault(op, subject, err).Advise(allowAdvice)
	case notAvailable, noSuchKeychain, invalidKeychain, noDefaultKeychain:
		return secrets.Absent.Fault(op, subject, err).Advise(repairAdvice)
	}
	return fault.New(fault.Execution, op, subject, err).Advise("See what it means: security error " + fmt.Sprint(int(s)))
}
