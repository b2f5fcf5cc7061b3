package enginetest

import (
	"context"

	"osaurus-sandbox/engine"
)

// meddler changes the requests, exits or output of a backend that keeps the contract.
type meddler struct {
	engine.Sandbox
	request func(*engine.Request)
	exit    func(*engine.ExitStatus)
	chunk   func(engine.Chunk) engine.Chunk
}

func requests(change func(*engine.Request)) func(engine.Sandbox) engine.Sandbox {
	return func(s engine.Sandbox) engine.Sandbox { return meddler{Sandbox: s, request: change} }
}

func exits(change func(*engine.ExitStatus)) func(engine.Sandbox) engine.Sandbox {
	return func(s engine.Sandbox) engine.Sandbox { return meddler{Sandbox: s, exit: change} }
}

func each(change func(engine.Chunk) engine.Chunk) func(engine.Sandbox) engine.Sandbox {
	return func(s engine.Sandbox) engine.Sandbox { return meddler{Sandbox: s, chunk: change} }
}

func (m meddler) Start(ctx context.Context, req engine.Request) (engine.Handle, error) {
	if m.request != nil {
		m.request(&req)
	}
	h, err := m.Sandbox.Start(ctx, req)
	if err != nil {
		return nil, err
	}
	b := bent{Handle: h, meddler: m, out: engine.NewBroadcast(0)}
	if m.chunk != nil {
		go b.copy(h.Output())
	}
	return b, nil
}

// bent is a handle with a changed exit or output.
type bent struct {
	engine.Handle
	meddler meddler
	out     *engine.Broadcast
}

// copy writes changed chunks to out.
func (b bent) copy(in *engine.Reader) {
	defer b.out.Close()
	for {
		chunk, err := in.Next(context.Background())
		if err != nil {
			return
		}
		chunk = b.meddler.chunk(chunk)
		_, _ = b.out.Writer(chunk.Stream).Write(chunk.Data)
	}
}

func (b bent) Output() *engine.Reader {
	if b.meddler.chunk == nil {
		return b.Handle.Output()
	}
	return b.out.Join()
}

func (b bent) Exit(ctx context.Context) (engine.ExitStatus, error) {
	exit, err := b.Handle.Exit(ctx)
	if b.meddler.exit != nil {
		b.meddler.exit(&exit)
	}
	return exit, err
}
