package agents

import (
	"archive/tar"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/clone"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/vm/image/untar"
)

// An exported agent is a tar archive: the card, the home folder, and an empty file that marks its end.
const (
	archiveFormat = 1
	cardEntry     = "card.json"
	homeEntry     = "home"
	endEntry      = "end"
	// sparseRecord marks a file with holes. Its value is the file's size. The content is the number of
	// extents, their offsets and lengths, and then their data.
	sparseRecord = untar.XattrPrefix + "osaurus.sparse"
	// minHoles is the least size of holes that makes a difference, and maxExtents bounds their list.
	minHoles, maxExtents = 1 << 20, 100_000
	// maxExport and maxExportFiles are below the limits of package untar, which reads the archive.
	maxExport, maxExportFiles = 7 << 30, 450_000
	maxExportName             = 4000
	maxExportXattrs           = 4000
)

// card describes an exported agent.
type card struct {
	Format   int                  `json:"format"`
	Name     config.AgentName     `json:"name"`
	Exported time.Time            `json:"exported"`
	Settings config.AgentSettings `json:"settings"`
}

// Export writes an agent as an archive for Import: settings and home folder. Programs may write
// meanwhile: each file is as it was when it was read. Sockets and pipes are left out.
func (a *Agents) Export(ctx context.Context, ref string, to io.Writer) error {
	const op = "export agent"
	agent, err := a.Get(ref)
	if err != nil {
		return err
	}
	home, err := a.root.OpenRoot(agent.subtree())
	if err != nil {
		return folderFault(op, agent.subtree(), err)
	}
	defer home.Close()
	packed, err := zstd.NewWriter(to, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return err
	}
	x := exporter{ctx: ctx, home: home, tar: tar.NewWriter(packed)}
	text, err := json.Marshal(card{archiveFormat, agent.Name, time.Now().UTC(), agent.Settings})
	if err == nil {
		err = x.small(cardEntry, text)
	}
	if err == nil {
		err = clone.Walk(ctx, home, x.add)
	}
	if err == nil {
		err = x.small(endEntry, nil)
	}
	if err = errors.Join(err, x.end(err), packed.Close()); err != nil {
		if _, known := errors.AsType[*fault.Error](err); !known {
			err = fault.New(fault.KindOf(err), op, string(agent.Name), err)
		}
		return err
	}
	return nil
}

type exporter struct {
	ctx   context.Context
	home  *os.Root
	tar   *tar.Writer
	bytes int64
	files int
}

// end completes the archive, unless it failed.
func (x *exporter) end(failed error) error {
	if failed != nil {
		return nil
	}
	return x.tar.Close()
}

func (x *exporter) small(name string, content []byte) error {
	if err := x.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o600, Size: int64(len(content)), Format: tar.FormatPAX}); err != nil {
		return err
	}
	_, err := x.tar.Write(content)
	return err
}

// add adds a file of the home.
func (x *exporter) add(n clone.Node) error {
	h := &tar.Header{Name: path.Join(homeEntry, n.Path), Mode: int64(n.Mode().Perm()), ModTime: n.ModTime(), Format: tar.FormatPAX, PAXRecords: map[string]string{}}
	x.files++
	if len(h.Name) > maxExportName || x.files > maxExportFiles {
		return fault.Newf(fault.Rejected, "export agent", n.Path, "there are more than %d files, or its path has more than %d bytes", maxExportFiles, maxExportName).Advise("Pack them into one file in the agent's home first.")
	}
	switch mode := n.Mode(); {
	case mode.IsDir():
		h.Typeflag, h.Name = tar.TypeDir, h.Name+"/"
	case mode.Type() == fs.ModeSymlink:
		h.Typeflag, h.Linkname = tar.TypeSymlink, n.Target
	case n.Link != "":
		h.Typeflag, h.Linkname = tar.TypeLink, path.Join(homeEntry, n.Link)
	case mode.IsRegular():
		h.Typeflag = tar.TypeReg
		return x.file(n, h)
	default:
		return nil
	}
	return x.tar.WriteHeader(h)
}

// file adds a regular file, without its holes.
func (x *exporter) file(n clone.Node, h *tar.Header) error {
	f, err := n.Open(x.home)
	if errors.Is(err, fs.ErrNotExist) {
		return x.tar.WriteHeader(h) // links may name it
	}
	if err != nil {
		return err
	}
	defer f.Close()
	size := n.Size()
	extents, err := clone.Extents(f, size)
	if err != nil {
		return err
	}
	data := int64(0)
	for _, e := range extents {
		data += e.Length
	}
	var list []byte
	if size-data >= minHoles && len(extents) <= maxExtents {
		list = binary.LittleEndian.AppendUint32(nil, uint32(len(extents)))
		for _, e := range extents {
			list = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(list, uint64(e.Offset)), uint64(e.Length))
		}
		h.PAXRecords[sparseRecord] = strconv.FormatInt(size, 10)
	} else {
		extents, data = []clone.Extent{{Offset: 0, Length: size}}, size
	}
	if err := x.attributes(f, h); err != nil {
		return err
	}
	h.Size = int64(len(list)) + data
	if x.bytes += h.Size; x.bytes > maxExport {
		return fault.Newf(fault.Rejected, "export agent", n.Path, "the home folder has more than %d GiB", maxExport>>30).Advise("Copy large files with osaurus-sandbox cp, and delete them from the home folder first.")
	}
	if err := x.tar.WriteHeader(h); err != nil {
		return err
	}
	if _, err := x.tar.Write(list); err != nil {
		return err
	}
	for _, e := range extents {
		// What was cut off meanwhile reads as zeros.
		part := io.LimitReader(io.MultiReader(io.NewSectionReader(f, e.Offset, e.Length), zeros{}), e.Length)
		if _, err := io.Copy(x.tar, reading{x.ctx, part}); err != nil {
			return err
		}
	}
	return nil
}

// attributes adds those that an archive can have.
func (x *exporter) attributes(f *os.File, h *tar.Header) error {
	list, err := clone.Xattrs(f)
	size := 0
	for name, value := range list {
		if size += len(name) + len(value) + len(untar.XattrPrefix); size < maxExportXattrs && !strings.ContainsAny(name, "=\n") {
			h.PAXRecords[untar.XattrPrefix+name] = value
		}
	}
	return err
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// reading reads until its context ends.
type reading struct {
	ctx context.Context
	io.Reader
}

func (r reading) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, fmt.Errorf("read: %w", context.Cause(r.ctx))
	}
	return r.Reader.Read(p)
}
