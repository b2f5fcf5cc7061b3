package agents

import (
	"archive/tar"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/clone"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/supervisor/boot"
	"osaurus-sandbox/supervisor/machine"
	"osaurus-sandbox/vm/image/untar"
)

const (
	// maxCard bounds the card: settings with thousands of network rules.
	maxCard = 1 << 20
	// maxSparse bounds the size of a file with holes: the largest on common file systems.
	maxSparse = 16 << 40
	// spaceEvery is how many bytes are written between two looks at the free space.
	spaceEvery = 64 << 20
)

// Import is how an agent is imported.
type Import struct {
	Name string // or empty, for that of the archive
	// Network takes what the agent may reach from the archive. Otherwise it gets what a new agent has.
	Network bool
}

// Import makes a new agent of an archive of Export, or of anyone: nothing in it is trusted. The agent
// appears with all of its home or not at all. It has an id, a uid and tokens of its own, and no
// secrets.
func (a *Agents) Import(ctx context.Context, in Import, from io.Reader, by machine.Cause) (agent Agent, err error) {
	const op = "import agent"
	folder := config.AgentName(importing + rand.Text())
	dir := path.Join(homes, string(folder))
	if err := a.root.MkdirAll(dir, privateDir); err != nil {
		return Agent{}, folderFault(op, dir, err)
	}
	defer func() {
		if agent.UID == 0 {
			err = errors.Join(err, remove(a.root, dir))
		}
	}()
	home, err := a.root.OpenRoot(dir)
	if err != nil {
		return Agent{}, folderFault(op, dir, err)
	}
	defer home.Close()
	x := &importer{home: home}
	if err := x.read(reading{ctx, from}); err != nil {
		if e, known := errors.AsType[*fault.Error](err); known && e.Op == untar.Op {
			err = fault.New(e.Kind, op, "", e.Err).Advise("The archive is damaged, or was not made by agent export.")
		} else if !known {
			err = fault.New(fault.KindOf(err), op, "", err).Advise("Nothing was imported. Check the archive, and that the disk has space.")
		}
		return Agent{}, err
	}
	name, err := config.NameAgent(in.Name)
	if in.Name == "" {
		name, err = config.NameAgent(string(x.card.Name))
	}
	if err != nil {
		return Agent{}, err
	}
	agent = Agent{Name: name, Folder: folder, Created: time.Now().UTC(), Settings: x.card.Settings}
	if fresh := config.AgentDefaults(); !in.Network {
		agent.Settings.Network, agent.Settings.NetworkObserve, agent.Settings.NetworkRules = fresh.Network, fresh.NetworkObserve, fresh.NetworkRules
	}
	return a.addImported(ctx, agent, by)
}

// addImported makes an agent whose home is there under another name, which it loses then. The row in the
// database decides: before it the home is removed, after it the home gets its name, even by a later
// daemon.
func (a *Agents) addImported(ctx context.Context, agent Agent, by machine.Cause) (Agent, error) {
	const op = "import agent"
	var err error
	if agent.Settings, err = with(agent.Settings, nil); err != nil {
		return Agent{}, err
	}
	if agent.ID, err = idFor(agent.Name, ""); err != nil {
		return Agent{}, err
	}
	end, err := a.turn(ctx, everybody, op, string(agent.Name))
	if err != nil {
		return Agent{}, err
	}
	defer func() { end() }()
	if agent.Name == Diagnostic {
		err = fault.Newf(fault.Rejected, op, string(agent.Name), "the name is reserved for diagnostics").Advise("Choose another name with --as.")
	}
	if err = errors.Join(err, a.mayBe(op, agent), a.folderFree(op, agent.Name)); err != nil {
		return Agent{}, err
	}
	added, err := a.rows.add(ctx, agent)
	if err != nil {
		return Agent{}, err
	}
	m := &member{Agent: added}
	a.mu.Lock()
	a.byName[added.Name] = m
	a.mu.Unlock()
	a.note(Created, by, added, map[string]string{"detail": "imported"})
	a.keepMap()
	err = a.show(added)
	end()
	end = func() {}
	a.letFollow(context.WithoutCancel(ctx), m)
	return a.agentOf(m), err
}

// importer unpacks an archive into a new home.
type importer struct {
	home    *os.Root
	card    card
	begun   bool // the card was read
	ended   bool
	folders []*tar.Header // that get their mode at the end
	written int64         // since the last look at the free space
}

func (x *importer) read(from io.Reader) error {
	r, err := untar.NewReader(from, "the archive")
	if err != nil {
		return err
	}
	defer r.Close()
	r.AllowAnyRatio()
	for {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err == nil {
			err = x.take(h, r)
		}
		if errors.Is(err, fs.ErrExist) { // untar refuses equal names
			err = fmt.Errorf("this computer's file system treats another name as the same: %w", err)
		}
		if err != nil {
			return err
		}
	}
	if !x.ended {
		return refused("", "it is cut off")
	}
	for _, h := range slices.Backward(x.folders) {
		name := inHome(h.Name)
		if err := errors.Join(x.home.Chtimes(name, h.ModTime, h.ModTime), x.home.Chmod(name, fs.FileMode(h.Mode).Perm())); err != nil {
			return err
		}
	}
	return clone.Sync(x.home.Name())
}

func refused(name, why string, args ...any) error {
	return fault.Newf(fault.Rejected, "import agent", name, why, args...).Advise("The archive is damaged, or was not made by agent export.")
}

// inHome returns the path in the home of an entry's name.
func inHome(name string) string {
	return path.Join(".", strings.TrimPrefix(name, homeEntry))
}

func (x *importer) take(h *tar.Header, content io.Reader) error {
	top, _, below := strings.Cut(h.Name, "/")
	switch {
	case h.Name == ".":
		return nil
	case x.ended:
		return refused(h.Name, "it comes after the end")
	case !x.begun:
		x.begun = true
		if h.Name != cardEntry || h.Typeflag != tar.TypeReg || h.Size > maxCard {
			return refused(h.Name, "the archive does not begin with %s", cardEntry)
		}
		if err := json.NewDecoder(content).Decode(&x.card); err != nil {
			return refused(h.Name, "%w", err)
		}
		if x.card.Format != archiveFormat {
			return fault.Newf(fault.Rejected, "import agent", "", "the archive has format %d, this program knows %d", x.card.Format, archiveFormat).Advise("Use the osaurus-sandbox that made it, or a newer one.")
		}
		return nil
	case h.Name == endEntry && !below:
		x.ended = true
		return nil
	case top != homeEntry || !below && h.Typeflag != tar.TypeDir:
		return refused(h.Name, "it is not in the home folder")
	}
	return x.place(h, inHome(h.Name), content)
}

// place makes a file of the home. Links may point anywhere: only the guest follows them.
func (x *importer) place(h *tar.Header, name string, content io.Reader) error {
	switch h.Typeflag {
	case tar.TypeDir:
		if h.Mode&0o700 != 0o700 && name == "." {
			h.Mode |= 0o700
		}
		x.folders = append(x.folders, h)
		if info, err := x.home.Lstat(name); err == nil && info.IsDir() {
			return nil // a folder may be listed twice
		}
		return x.home.Mkdir(name, privateDir)
	case tar.TypeSymlink:
		return x.home.Symlink(h.Linkname, name)
	case tar.TypeLink:
		if !strings.HasPrefix(h.Linkname, homeEntry+"/") {
			return refused(h.Name, "it is a hard link to %q", h.Linkname)
		}
		return x.home.Link(inHome(h.Linkname), name)
	case tar.TypeReg:
		return x.file(h, name, content)
	}
	return nil // a pipe
}

func (x *importer) file(h *tar.Header, name string, content io.Reader) error {
	f, err := x.home.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	extents, size := []clone.Extent{{Offset: 0, Length: h.Size}}, h.Size
	if text, sparse := h.PAXRecords[sparseRecord]; sparse {
		if extents, size, err = readExtents(text, h.Size, content); err != nil {
			return errors.Join(refused(h.Name, "%w", err), f.Close())
		}
	}
	for _, e := range extents {
		if err == nil {
			_, err = f.Seek(e.Offset, io.SeekStart)
		}
		if err == nil {
			err = x.copy(f, io.LimitReader(content, e.Length))
		}
	}
	if err == nil {
		err = errors.Join(f.Truncate(size), setXattrs(f, h), f.Chmod(fs.FileMode(h.Mode).Perm()))
	}
	return errors.Join(err, f.Close(), x.home.Chtimes(name, h.ModTime, h.ModTime))
}

// setXattrs sets a file's user attributes. On a file system without them they are left out.
func setXattrs(f *os.File, h *tar.Header) (err error) {
	for key, value := range h.PAXRecords {
		if name := strings.TrimPrefix(key, untar.XattrPrefix); strings.HasPrefix(name, "user.") {
			err = errors.Join(err, clone.SetXattr(f, name, value))
		}
	}
	if errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	return err
}

// copy writes while this computer's disk has space for more.
func (x *importer) copy(to io.Writer, from io.Reader) error {
	for {
		n, err := io.Copy(to, io.LimitReader(from, spaceEvery-x.written))
		if x.written += n; err != nil || n == 0 {
			return err
		}
		if x.written < spaceEvery {
			continue
		}
		x.written = 0
		if free, err := clone.Free(x.home.Name()); err == nil && free < boot.MinFree {
			return fault.Newf(fault.Unavailable, "import agent", "", "%d MB of disk space are free", free>>20).Advise("Nothing was imported. Free disk space on this computer.")
		}
	}
}

// readExtents reads the extents of a file with holes. The rest of the content is their data.
func readExtents(text string, length int64, content io.Reader) (list []clone.Extent, size int64, err error) {
	if size, err = strconv.ParseInt(text, 10, 64); err != nil || size < 0 || size > maxSparse {
		return nil, 0, fmt.Errorf("%q is not the size of a file", text)
	}
	var n uint32
	if err := binary.Read(content, binary.LittleEndian, &n); err != nil || n > maxExtents {
		return nil, 0, fmt.Errorf("it has %d extents: %w", n, err)
	}
	list = make([]clone.Extent, n)
	if err := binary.Read(content, binary.LittleEndian, list); err != nil {
		return nil, 0, err
	}
	left, at := length-4-16*int64(n), int64(0)
	for _, e := range list {
		if e.Offset < at || e.Length <= 0 || e.Length > left || e.Offset > size-e.Length {
			return nil, 0, fmt.Errorf("an extent at %d has %d bytes", e.Offset, e.Length)
		}
		at, left = e.Offset+e.Length, left-e.Length
	}
	if left != 0 {
		return nil, 0, fmt.Errorf("%d bytes belong to no extent", left)
	}
	return list, size, nil
}
