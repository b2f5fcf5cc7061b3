package provision

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
)

const privateDir fs.FileMode = 0o700

// makeFolders makes the folders that a guest is shown. The root of the guest before
// could put anything into the workspace: what stands there in place of a folder is
// refused, as the next guest would be shown what a link points to.
func makeFolders(home config.Home) error {
	const op = "make folder"
	workspace, err := home.Make(home.Workspace())
	if err != nil {
		return err
	}
	if _, err := home.Make(home.Output()); err != nil {
		return err
	}
	root, err := os.OpenRoot(workspace)
	if err != nil {
		return fault.New(fault.Unavailable, op, workspace, err).Advise("See that it is a folder of yours.")
	}
	defer root.Close()
	for _, name := range []string{filepath.Base(home.SharedFolder()), "agents"} {
		path := filepath.Join(workspace, name)
		if err := root.Mkdir(name, privateDir); err != nil && !errors.Is(err, fs.ErrExist) {
			return fault.New(fault.Unavailable, op, path, err).Advise("See that the workspace is yours, and that its disk has room.")
		}
		info, err := root.Lstat(name)
		if err == nil && !info.IsDir() {
			err = errors.New("something in the guest has put another thing in its place")
		}
		if err != nil {
			return fault.New(fault.Rejected, op, path, err).Advise("See what it is, and remove it; the next start makes the folder.")
		}
	}
	return nil
}
