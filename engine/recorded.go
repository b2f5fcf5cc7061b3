package engine

import "context"

// Recorded is a sandbox that tells record of every request before it is started.
// What cannot be recorded is not run: Start then says what record says.
func Recorded(s Sandbox, record func(Request) error) Sandbox {
	return recorded{s, record}
}

type recorded struct {
	Sandbox
	record func(Request) error
}

func (r recorded) Start(ctx context.Context, req Request) (Handle, error) {
	if err := req.Check(); err != nil {
		return nil, err
	}
	if err := r.record(req); err != nil {
		return nil, err
	}
	return r.Sandbox.Start(ctx, req)
}
