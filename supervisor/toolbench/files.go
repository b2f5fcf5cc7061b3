package toolbench

import (
	"context"
	"io"

	"osaurus-sandbox/guest"
	"osaurus-sandbox/supervisor/machine"
	"osaurus-sandbox/tools"
)

// files is how tools touch agents' files.
type files struct{ Options }

// in does something with the files of an agent, whose room is made if need be.
func (f files) in(ctx context.Context, op string, a tools.Agent, file guest.File, do func(machine.Files, guest.File) error) error {
	l, agent, err := f.Agents.Enter(ctx, string(a.ID))
	if err != nil {
		return err
	}
	defer l.Return()
	file.User = agent.User
	return l.Explain(ctx, op, file.String(), do(l.Files(), file))
}

func (f files) StatFile(ctx context.Context, a tools.Agent, file guest.File) (info guest.FileInfo, err error) {
	err = f.in(ctx, "look at", a, file, func(g machine.Files, file guest.File) error {
		info, err = g.StatFile(ctx, file)
		return err
	})
	return info, err
}

func (f files) ListFolder(ctx context.Context, a tools.Agent, file guest.File, limit int) (list []guest.FolderEntry, more bool, err error) {
	err = f.in(ctx, "list", a, file, func(g machine.Files, file guest.File) error {
		list, more, err = g.ListFolder(ctx, file, limit)
		return err
	})
	return list, more, err
}

func (f files) ReadFile(ctx context.Context, a tools.Agent, file guest.File, part guest.FilePart, to io.Writer) (r guest.FileRead, err error) {
	err = f.in(ctx, "read", a, file, func(g machine.Files, file guest.File) error {
		r, err = g.ReadFile(ctx, file, part, to)
		return err
	})
	return r, err
}

func (f files) WriteFile(ctx context.Context, a tools.Agent, file guest.File, w guest.FileWrite) (done guest.FileWritten, err error) {
	err = f.in(ctx, "write", a, file, func(g machine.Files, file guest.File) error {
		done, err = g.WriteFile(ctx, file, w)
		return err
	})
	return done, err
}

func (f files) DigestFiles(ctx context.Context, a tools.Agent, folder guest.File, limit uint64, paths []string) (list []guest.FileDigest, err error) {
	err = f.in(ctx, "look at", a, folder, func(g machine.Files, folder guest.File) error {
		list, err = g.DigestFiles(ctx, folder, limit, paths)
		return err
	})
	return list, err
}

func (f files) SearchFiles(ctx context.Context, a tools.Agent, file guest.File, s guest.FileSearch, tell func(guest.FileMatch) error) (end guest.SearchEnd, err error) {
	err = f.in(ctx, "search", a, file, func(g machine.Files, file guest.File) error {
		end, err = g.SearchFiles(ctx, file, s, tell)
		return err
	})
	return end, err
}
