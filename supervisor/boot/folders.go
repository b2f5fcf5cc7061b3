package boot

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
)

const privateDir fs.FileMode = 0o700

// makeFolders makes the folders that are shared with the guest. Root in an earlier
// guest could write to the workspace, so anything but a folder is refused there: the
// next guest would see what a link points to.
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
		return fault.New(fault.Unavailable, op, workspace, err).Advise("Make it a folder that you own.")
	}
	defer root.Close()
	for _, name := range []string{filepath.Base(home.SharedFolder()), "agents"} {
		path := filepath.Join(workspace, name)
		if err := root.Mkdir(name, privateDir); err != nil && !errors.Is(err, fs.ErrExist) {
			return fault.New(fault.Unavailable, op, path, err).Advise("Make sure that you own the workspace and that its disk has free space.")
		}
		if info, err := root.Lstat(name); err != nil || !info.IsDir() {
			return fault.New(fault.Rejected, op, path, cmp.Or(err, errors.New("the guest replaced this folder with something else"))).
				Advise("Look at it and remove it. The next start makes the folder.")
		}
	}
	return nil
}
