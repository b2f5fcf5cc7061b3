package protocol

import (
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/fault/faultrpc"
)

// Decode turns what a call to the guest returned into a fault; see
// faultrpc.Decode.
func Decode(op, subject string, err error) error {
	decoded := faultrpc.Decode(op, subject, err)
	if fault.KindOf(decoded) != fault.Timeout || faultrpc.Answered(err) {
		return decoded
	}
	return fault.New(fault.Timeout, op, subject, decoded.(*fault.Error).Err).
		Advise("The guest did not answer in time: look at its console log, or restart it.")
}
