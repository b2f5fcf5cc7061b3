package toolbench

import (
	"context"
	"io"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/supervisor/machine"
	"osaurus-sandbox/tools"
)

// files is how tools touch agents' files.
type files struct{ Options }

// in does something with the files of an agent, whose room is made if need be.
func (f files) in(ctx context.Context, op string, a tools.Agent, file engine.File, do func(machine.Files, engine.File) error) error {
	l, agent, err := f.Agents.Enter(ctx, string(a.ID))
	if err != nil {
		return err
	}
	defer l.Return()
	file.User = agent.User
	return l.Explain(ctx, op, file.String(), do(l.Files(), file))
}

func (f files) StatFile(ctx context.Context, a tools.Agent, file engine.File) (info engine.FileInfo, err error) {
	err = f.in(ctx, "look at", a, file, func(g machine.Files, file engine.File) error {
		info, err = g.StatFile(ctx, file)
		return err
	})
	return info, err
}

func (f files) ListFolder(ctx context.Context, a tools.Agent, file engine.File, limit int) (list []engine.FolderEntry, more bool, err error) {
	err = f.in(ctx, "list", a, file, func(g machine.Files, file engine.File) error {
		list, more, err = g.ListFolder(ctx, file, limit)
		return err
	})
	return list, more, err
}

func (f files) ReadFile(ctx context.Context, a tools.Agent, file engine.File, part engine.FilePart, to io.Writer) (r engine.FileRead, err error) {
	err = f.in(ctx, "read", a, file, func(g machine.Files, file engine.File) error {
		r, err = g.ReadFile(ctx, file, part, to)
		return err
	})
	return r, err
}

func (f files) WriteFile(ctx context.Context, a tools.Agent, file engine.File, w engine.FileWrite) (done engine.FileWritten, err error) {
	err = f.in(ctx, "write", a, file, func(g machine.Files, file engine.File) error {
		done, err = g.WriteFile(ctx, file, w)
		return err
	})
	return done, err
}

func (f files) DigestFiles(ctx context.Context, a tools.Agent, folder engine.File, limit uint64, paths []string) (list []engine.FileDigest, err error) {
	err = f.in(ctx, "look at", a, folder, func(g machine.Files, folder engine.File) error {
		list, err = g.DigestFiles(ctx, folder, limit, paths)
		return err
	})
	return list, err
}

func (f files) SearchFiles(ctx context.Context, a tools.Agent, file engine.File, s engine.FileSearch, tell func(engine.FileMatch) error) (end engine.SearchEnd, err error) {
	err = f.in(ctx, "search", a, file, func(g machine.Files, file engine.File) error {
		end, err = g.SearchFiles(ctx, file, s, tell)
		return err
	})
	return end, err
}
