package main

import (
	"errors"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"

	"github.com/spf13/cobra"

	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/internal/fault"
)

func newArtifactsSave(c console) *cobra.Command {
	return withJSON(&cobra.Command{
		Use:   "save ARTIFACT [FOLDER | -]",
		Short: "Copy what was handed over to where you want it",
		Long:  "Copies it under its own name into FOLDER, or into the current folder. It never replaces a file. With - it writes a file to\nstandard output.",
		Example: `  osaurus-sandbox artifacts save 42 ~/Documents
  osaurus-sandbox artifacts save 42 - | wc -l`,
		PreRunE: func(cmd *cobra.Command, args []string) error {
			if wantsJSON(cmd) && toOut(args) {
				return fault.Newf(fault.InvalidArgs, "save artifact", args[0], "- and --json exclude each other").Advise("Standard output is for the file or for its path: say one of them.")
			}
			return nil
		},
		RunE: withClient(func(cmd *cobra.Command, client *control.Client, args []string) error {
			f, err := artifact(cmd.Context(), client, args[0])
			if err != nil {
				return err
			}
			content := control.Messages(client.Artifacts.Read(cmd.Context(), &controlpb.ReadArtifactRequest{Id: f.Id}))
			if toOut(args) {
				return toOutput(c.out, f, content)
			}
			to := "."
			if len(args) == 2 {
				to = args[1]
			}
			if err := save(to, f, content); err != nil {
				kind := fault.KindOf(err)
				if errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrPermission) {
					kind = fault.Rejected
				}
				return fault.New(kind, "save "+f.Name+" in", to, err).Advise("Choose another folder.")
			}
			path := filepath.Join(to, f.Name)
			return reply(cmd, map[string]string{"path": path}, nil, func(io.Writer, map[string]string) error { return writef(c.err, "%s\n", path) })
		}),
	})
}

// toOut reports whether what is saved is to be written to standard output, which is the
// file then, and nothing else.
func toOut(args []string) bool { return len(args) == 2 && args[1] == "-" }

// artifactContent is what the daemon answers of an artifact's files.
type artifactContent = iter.Seq2[*controlpb.ReadArtifactResponse, error]

func toOutput(to io.Writer, f *controlpb.Artifact, content artifactContent) error {
	if f.Folder {
		return fault.Newf(fault.InvalidArgs, "print", f.Name, "it is a folder").Advise("Say where to save it.")
	}
	for part, err := range content {
		if err == nil {
			_, err = to.Write(part.Data)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// save writes an artifact into a folder, all of it or nothing. What is there stays as it is.
func save(to string, f *controlpb.Artifact, content artifactContent) (err error) {
	root, err := os.OpenRoot(to)
	if err != nil {
		return err
	}
	defer root.Close()
	if f.Folder {
		if err := root.Mkdir(f.Name, 0o755); err != nil {
			return err
		}
	}
	s := saving{root: root, name: f.Name, begun: f.Folder}
	defer func() {
		if err = errors.Join(err, s.end()); err != nil && s.begun {
			err = errors.Join(err, root.RemoveAll(f.Name))
		}
	}()
	for part, err := range content {
		if err == nil {
			err = s.take(part)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// saving is what is being written.
type saving struct {
	root  *os.Root
	name  string   // of the artifact
	begun bool     // there is something of that name, and it was made here
	file  *os.File // that has begun, or nil
}

func (s *saving) take(m *controlpb.ReadArtifactResponse) error {
	if m.File != nil {
		if err := s.begin(path.Join(s.name, *m.File)); err != nil {
			return err
		}
	}
	_, err := s.file.Write(m.Data)
	return err
}

func (s *saving) begin(name string) error {
	err := errors.Join(s.end(), s.root.MkdirAll(path.Dir(name), 0o755))
	if err == nil {
		s.file, err = s.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	}
	if err != nil {
		s.file = nil
		return err
	}
	s.begun = true
	return nil
}

func (s *saving) end() error {
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	s.file = nil
	return err
}
