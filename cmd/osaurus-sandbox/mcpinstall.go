package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/control/mcp"
	"osaurus-sandbox/control/mcp/install"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/supervisor/machine"
	"osaurus-sandbox/tools"
)

// setup configures how a client starts this program.
type setup struct {
	agent, profile   string
	readOnly, dryRun bool
}

func (s *setup) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&s.agent, "agent", "", "the agent that the client works as (default one named after it)")
	cmd.Flags().StringVar(&s.profile, "profile", string(tools.Full), "which tools: full, or lean for small models")
	withJSON(cmd)
}

func newMCPInstall(c console) *cobra.Command {
	var s setup
	cmd := &cobra.Command{
		Use:   "install CLIENT",
		Short: "Connect an app: add the sandbox to its MCP servers",
		Long: `Adds this program to the MCP servers in a client's configuration file, shows what it changes there, and keeps a copy of the file
beside it. The client gets an agent of its own, which may do everything in its room: run commands, write files, install. With
--read-only it may only read. If there is such an agent already, its setting autonomousExec.enabled is changed accordingly, for
everything that works as that agent.

` + ownTools + `

Clients: ` + strings.Join(install.IDs(), ", ") + ".",
		Example: `  osaurus-sandbox mcp install claude-desktop
  osaurus-sandbox mcp install cursor --dry-run
  osaurus-sandbox mcp install zed --agent alice --profile lean`,
		RunE: func(cmd *cobra.Command, args []string) error {
			client, command, err := s.resolve(args[0])
			if err != nil {
				return err
			}
			var sandbox admitted
			file, err := edit(client, s.dryRun, func(path string, text []byte) (change, error) {
				added, err := client.Add(text, command)
				if err == nil && !s.dryRun { // first: the entry does not work without the agent
					sandbox, err = s.admit(cmd.Context())
				}
				if client.Has(text) { // the backup holds the file before the first install
					text, _, _ = readClient(path + backupSuffix)
				}
				return change{file: added, copy: text}, err
			})
			if err == nil && !s.dryRun { // last: if installing fails, the agent's rights stay
				err = s.allow(cmd.Context(), client, sandbox.agent)
			}
			switch {
			case err != nil:
				return err
			case wantsJSON(cmd):
				return printJSON(c.out, struct {
					clientEditJSON
					Agent    string `json:"agent"`
					ReadOnly bool   `json:"read_only"`
				}{editAsJSON(client, file), cmp.Or(sandbox.agent, s.agent), s.readOnly})
			}
			if _, err := fmt.Fprint(c.out, file.diff); err != nil {
				return err
			}
			if !s.dryRun {
				if err := s.tell(c.out, client, sandbox); err != nil {
					return err
				}
			}
			switch {
			case !file.changed:
				err = writef(c.out, "%s is connected already; its file was not changed.\n", client.Title)
			case !s.dryRun:
				_, err = fmt.Fprintln(c.out, client.Then)
			}
			return err
		},
	}
	s.flags(cmd)
	cmd.Flags().BoolVar(&s.readOnly, "read-only", false, "let the agent read only")
	cmd.Flags().BoolVar(&s.dryRun, "dry-run", false, "show what would be changed, and change nothing")
	return cmd
}

// clientEditJSON is a clientEdit as JSON.
type clientEditJSON struct {
	Client  string `json:"client"`
	File    string `json:"file"`
	Changed bool   `json:"changed"` // or would be, with --dry-run
	Diff    string `json:"diff"`
}

func editAsJSON(client install.Client, e clientEdit) clientEditJSON {
	return clientEditJSON{client.ID, e.path, e.changed, e.diff}
}

func newMCPUninstall(c console) *cobra.Command {
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "uninstall CLIENT",
		Short: "Disconnect an app: undo mcp install",
		Long: `Takes this program out of the MCP servers in a client's configuration file again, and shows what it changes there. The copy that
install kept beside the file is removed, and so is the file, if nothing else is in it. A client that was not connected is left alone.

The agent stays, with its files and what it may do: osaurus-sandbox agent delete NAME.

Clients: ` + strings.Join(install.IDs(), ", ") + ".",
		Example: `  osaurus-sandbox mcp uninstall cursor
  osaurus-sandbox mcp uninstall claude-desktop --dry-run`,
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := install.Find(args[0])
			if err != nil {
				return err
			}
			file, err := edit(client, dryRun, func(path string, text []byte) (change, error) { return undo(client, path, text) })
			switch {
			case err != nil:
				return err
			case wantsJSON(cmd):
				return printJSON(c.out, editAsJSON(client, file))
			case !file.changed:
				return writef(c.out, "%s was not connected.\n", client.Title)
			}
			if _, err = fmt.Fprint(c.out, file.diff); err == nil && !dryRun {
				_, err = fmt.Fprintln(c.out, client.Then)
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "show what would be changed, and change nothing")
	return withJSON(cmd)
}

func newMCPConfig(c console) *cobra.Command {
	var s setup
	cmd := &cobra.Command{
		Use:   "config CLIENT",
		Short: "Print the entry for a client's file",
		Long: `Prints what mcp install would write, for people who edit the file themselves. The client can connect only if there is the agent that
the entry names: osaurus-sandbox agent create NAME

Clients: ` + strings.Join(install.IDs(), ", ") + ".",
		Example: `  osaurus-sandbox mcp config cursor
  osaurus-sandbox mcp config zed --agent alice`,
		RunE: func(cmd *cobra.Command, args []string) error {
			client, command, err := s.resolve(args[0])
			if err != nil {
				return err
			}
			path, err := clientFile(client)
			if err != nil {
				return err
			}
			there := hasAgent(cmd.Context(), s.agent)
			if wantsJSON(cmd) {
				return printJSON(c.out, struct {
					Client      string `json:"client"`
					File        string `json:"file"`
					Agent       string `json:"agent"`
					AgentExists *bool  `json:"agent_exists"` // null if unknown
					Entry       string `json:"entry"`
				}{client.ID, path, s.agent, there, client.Snippet(command)})
			}
			fmt.Fprintln(c.err, "for "+path)
			if there == nil || !*there {
				writef(c.err, "It connects only if this agent exists: osaurus-sandbox agent create %s\n", s.agent)
			}
			_, err = fmt.Fprint(c.out, client.Snippet(command))
			return err
		},
	}
	s.flags(cmd)
	return cmd
}

// hasAgent reports whether an agent exists, or returns nil if no daemon answers.
func hasAgent(ctx context.Context, ref string) *bool {
	client, err := reach(ctx)
	if err != nil {
		return nil
	}
	defer client.Close()
	_, err = client.Agents.Show(ctx, &controlpb.ShowAgentRequest{Agent: ref})
	if err != nil && fault.KindOf(err) != fault.NotFound {
		return nil
	}
	return new(err == nil)
}

// resolve returns the client with an id and the command that starts this program for it.
func (s *setup) resolve(id string) (install.Client, install.Command, error) {
	client, err := install.Find(id)
	if err != nil {
		return client, install.Command{}, err
	}
	agent, err := config.NameAgent(cmp.Or(s.agent, client.ID))
	if err != nil {
		return client, install.Command{}, err
	}
	s.agent = string(agent)
	profile, err := mcp.ParseProfile(s.profile)
	if err != nil {
		return client, install.Command{}, err
	}
	command := install.Command{Path: programPath(), Args: []string{"mcp", "--agent", s.agent}}
	if profile != tools.Full {
		command.Args = append(command.Args, "--profile", string(profile))
	}
	if home := os.Getenv(config.HomeVariable); home != "" {
		command.Env = map[string]string{config.HomeVariable: home}
	}
	return client, command, nil
}

// admitted is the agent that a client works as, and whether a sandbox exists.
type admitted struct {
	agent string
	state machine.State
}

// admit creates the client's agent if needed.
func (s *setup) admit(ctx context.Context) (in admitted, err error) {
	daemon, err := need(ctx)
	if err != nil {
		return in, err
	}
	defer daemon.Close()
	found, err := daemon.Agents.Show(ctx, &controlpb.ShowAgentRequest{Agent: s.agent})
	_, notID := config.ParseAgentID(s.agent)
	switch {
	case err == nil:
		in.agent = found.Agent.GetName()
	case fault.KindOf(err) == fault.NotFound && notID != nil:
		in.agent = s.agent
		_, err = daemon.Agents.Create(ctx, &controlpb.CreateAgentRequest{Name: s.agent})
	}
	if err != nil {
		return in, err
	}
	status, err := answer(daemon.Status(ctx, &controlpb.StatusRequest{}))
	in.state = machine.State(status.GetState())
	return in, err
}

// allow applies --read-only to a client's agent.
func (s *setup) allow(ctx context.Context, client install.Client, agent string) error {
	may := fmt.Sprint(!s.readOnly)
	daemon, err := need(ctx)
	if err == nil {
		defer daemon.Close()
		_, err = daemon.Agents.Set(ctx, &controlpb.SetAgentRequest{Agent: agent, Settings: map[string]string{string(tools.Exec): may}})
	}
	if err != nil {
		return fault.Wrap("set what may be done by", agent, err).
			Advise(fmt.Sprintf("%s is connected as this agent already, but what it may do was not changed. Run: osaurus-sandbox agent set %s %s=%s", client.Title, agent, tools.Exec, may))
	}
	return nil
}

// ownTools warns that connecting an app does not restrict it.
const ownTools = `The app's own tools for commands and files still work on this computer, outside of the sandbox: only the tools that are added work inside.
If you do not want that, turn the app's own tools off in its settings.`

// tell says which agent a client works as, what the agent may do, and what the app can still do
// without it.
func (s *setup) tell(w io.Writer, client install.Client, in admitted) error {
	may := "may do everything in its room in the sandbox: run commands, write files, install"
	if s.readOnly {
		may = "may only read"
	}
	err := writef(w, "%s works as the agent %s, which %s. Change that: osaurus-sandbox agent set %s %s=%v\n%s\n",
		client.Title, in.agent, may, in.agent, tools.Exec, s.readOnly, lines(ownTools))
	if err == nil && in.state == machine.NotProvisioned {
		_, err = fmt.Fprintln(w, "There is no sandbox yet. Make it once: osaurus-sandbox up")
	}
	return err
}

// backupSuffix is appended to the name of a client's file for the backup.
const backupSuffix = ".before-osaurus-sandbox"

// clientFile returns the path of a client's configuration file, with links resolved.
func clientFile(client install.Client) (string, error) {
	user, err := os.UserHomeDir()
	if err != nil {
		return "", fault.New(fault.Unavailable, "find your folder", "", err).Advise("Set HOME.")
	}
	places := install.Places{User: user, Config: cmp.Or(os.Getenv("XDG_CONFIG_HOME"), filepath.Join(user, ".config")), Codex: cmp.Or(os.Getenv("CODEX_HOME"), filepath.Join(user, ".codex"))}
	places.Apps = places.Config
	if runtime.GOOS == "darwin" {
		places.Apps = filepath.Join(user, "Library", "Application Support")
	}
	path := client.File(places)
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	return path, nil
}

// change is the new content of a client's file and its backup. A file without content is removed.
type change struct{ file, copy []byte }

// clientEdit is the result of an edit.
type clientEdit struct {
	path, diff string
	changed    bool
}

// edit changes a client's file as do says, unless that changes nothing.
func edit(client install.Client, dryRun bool, do func(path string, text []byte) (change, error)) (e clientEdit, err error) {
	const op = "edit the configuration of"
	if e.path, err = clientFile(client); err != nil {
		return e, err
	}
	before, mode, err := readClient(e.path)
	if err != nil {
		return e, fault.New(fault.Unavailable, op, client.Title, err).Advise("Make the file readable for you.")
	}
	after, err := do(e.path, before)
	if err != nil || bytes.Equal(before, after.file) {
		return e, err
	}
	e.changed = true
	if e.diff, _ = tools.Diff(e.path, string(before), string(after.file)); dryRun {
		return e, nil
	}
	if len(after.copy) > 0 {
		if err := config.ReplaceFile(e.path+backupSuffix, after.copy, mode); err != nil {
			return e, err
		}
	}
	if now, _, err := readClient(e.path); err != nil || !bytes.Equal(now, before) {
		return e, fault.New(fault.Rejected, op, client.Title, errors.Join(err, errors.New("it is being changed right now"))).Advise("Quit " + client.Title + ", and try again.")
	}
	if len(after.file) > 0 {
		err = config.ReplaceFile(e.path, after.file, mode)
	} else {
		err = os.Remove(e.path)
	}
	if err == nil && len(after.copy) == 0 {
		if err = os.Remove(e.path + backupSuffix); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	return e, err
}

// readClient reads a client's file. A missing file is empty and private to the user.
func readClient(path string) (text []byte, mode fs.FileMode, err error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0o600, nil
	}
	if err != nil {
		return nil, 0, err
	}
	text, err = os.ReadFile(path)
	return text, info.Mode().Perm(), err
}

// undo returns a client's file before install if nothing else has changed, and otherwise the
// current file without this program's entry. Most clients write to their files. The backup is
// removed.
func undo(client install.Client, path string, text []byte) (change, error) {
	removed, err := client.Remove(text)
	if err != nil {
		return change{}, err
	}
	backup, _, err := readClient(path + backupSuffix)
	if err == nil && !client.Has(backup) && client.Same(removed, backup) {
		return change{file: backup}, nil
	}
	return change{file: removed}, nil
}
