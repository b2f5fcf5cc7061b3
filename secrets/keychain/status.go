package keychain

import (
	"errors"
	"fmt"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/secrets"
)

// status is an OSStatus of Apple's Security framework.
type status int

// From SecBase.h.
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
	unlockAdvice = "Run: security unlock-keychain (macOS cannot ask for the password over ssh or from launchd)"
	allowAdvice  = "Try again and allow access. The Keychain asks again after each build, unless make app signs with an Apple certificate (SIGN_AS)."
	absentAdvice = "Use the system's keyring: osaurus-sandbox config set secrets=secret-service; or an encrypted file, which is weaker: osaurus-sandbox config set secrets=file"
	repairAdvice = "Log in to the desktop and check in Keychain Access that there is a default keychain."
)

// explain turns a status into an error with a reason.
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
	return fault.New(fault.Execution, op, subject, err).Advise("For its meaning, run: security error " + fmt.Sprint(int(s)))
}
