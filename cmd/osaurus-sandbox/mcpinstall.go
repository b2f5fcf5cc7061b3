package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/control/mcp"
	"osaurus-sandbox/control/mcp/clients"
	"osaurus-sandbox/fault"
	"osaurus-sandbox/supervisor"
	"osaurus-sandbox/tools"
)

// backupSuffix is what the file as it was before is called after.
const backupSuffix = ".before-osaurus-sandbox"

// setup is how a client is to start this program.
type setup struct {
	agent, profile   string
	readOnly, dryRun bool
}

func (s *setup) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&s.agent, "agent", "", "the agent that the client works as (default one named after it)")
	cmd.Flags().StringVar(&s.profile, "profile", string(tools.Full), "full, or lean for models that cannot hold many tools in mind")
}

func newMCPInstall(c console) *cobra.Command {
	var s setup
	cmd := &cobra.Command{
		Use:   "install CLIENT",
		Short: "Connect an app: add the sandbox to its MCP servers",
		Long: `Adds this program to the file in which a client keeps the servers that it starts, shows what is changed there, and keeps the file as it was
beside it. The client gets an agent of its own, which may do everything in its room: run commands, write files, install. With --read-only
it may only read. If the agent is there already its autonomousExec.enabled is set so, for everything that works as that agent.

Clients: ` + strings.Join(clients.IDs(), ", ") + ".",
		Example: `  osaurus-sandbox mcp install claude-desktop
  osaurus-sandbox mcp install cursor --dry-run
  osaurus-sandbox mcp install zed --agent alice --profile lean`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, command, err := s.resolve(args[0])
			if err != nil {
				return err
			}
			changed, err := edit(c, client, s.dryRun, func(text []byte) (change, error) {
				added, err := client.Add(text, command)
				return change{file: added, copy: text}, err
			})
			if err != nil || s.dryRun && changed {
				return err
			}
			if s.dryRun {
				_, err = writef(c.out, startsAlready, client.Title)
				return err
			}
			if err := withClient(func(cmd *cobra.Command, daemon *control.Client, _ []string) error {
				return s.admit(cmd, c, daemon, client)
			})(cmd, nil); err != nil {
				return err
			}
			if !changed {
				_, err = writef(c.out, startsAlready, client.Title)
				return err
			}
			_, err = fmt.Fprintln(c.out, client.Then)
			return err
		},
	}
	s.flags(cmd)
	cmd.Flags().BoolVar(&s.readOnly, "read-only", false, "let the agent read only")
	cmd.Flags().BoolVar(&s.dryRun, "dry-run", false, "show what would be changed, and change nothing")
	return cmd
}

const startsAlready = "%s starts it already.\n"

func newMCPUninstall(c console) *cobra.Command {
	var dryRun bool
	cmd := &cobra.Command{
		Use:     "uninstall CLIENT",
		Short:   "Undo mcp install",
		Long:    `Takes this program out of a client's file again. The agent stays, with its files: osaurus-sandbox agent delete NAME`,
		Example: `  osaurus-sandbox mcp uninstall cursor`,
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			client, err := clients.Find(args[0])
			if err != nil {
				return err
			}
			path, err := clientFile(client)
			if err != nil {
				return err
			}
			changed, err := edit(c, client, dryRun, func(text []byte) (change, error) { return undo(client, path, text) })
			switch {
			case err != nil || dryRun && changed:
				return err
			case !changed:
				_, err = writef(c.out, "%s does not start it.\n", client.Title)
			default:
				_, err = fmt.Fprintln(c.out, client.Then)
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "show what would be changed, and change nothing")
	return cmd
}

func newMCPConfig(c console) *cobra.Command {
	var s setup
	cmd := &cobra.Command{
		Use:   "config CLIENT",
		Short: "Print the entry for a client's file",
		Long:  "Prints what mcp install would write, for people who keep their files themselves.\n\nClients: " + strings.Join(clients.IDs(), ", ") + ".",
		Example: `  osaurus-sandbox mcp config cursor
  osaurus-sandbox mcp config zed --agent alice`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			client, command, err := s.resolve(args[0])
			if err != nil {
				return err
			}
			path, err := clientFile(client)
			if err != nil {
				return err
			}
			fmt.Fprintln(c.err, "for "+path)
			_, err = fmt.Fprint(c.out, client.Snippet(command))
			return err
		},
	}
	s.flags(cmd)
	return cmd
}

// resolve is which client is meant, and how it is to start this program.
func (s *setup) resolve(id string) (clients.Client, clients.Command, error) {
	client, err := clients.Find(id)
	if err != nil {
		return client, clients.Command{}, err
	}
	s.agent = cmp.Or(s.agent, client.ID)
	if _, err := config.ParseAgentName(s.agent); err != nil {
		return client, clients.Command{}, err
	}
	profile, err := mcp.ParseProfile(s.profile)
	if err != nil {
		return client, clients.Command{}, err
	}
	command := clients.Command{Path: programPath(), Args: []string{"mcp", "--agent", s.agent}}
	if profile != tools.Full {
		command.Args = append(command.Args, "--profile", string(profile))
	}
	if home := os.Getenv(config.HomeVariable); home != "" {
		command.Env = map[string]string{config.HomeVariable: home}
	}
	return client, command, nil
}

// admit makes the client's agent, and says what it may do.
func (s *setup) admit(cmd *cobra.Command, c console, daemon *control.Client, client clients.Client) error {
	settings := map[string]string{string(tools.Exec): fmt.Sprint(!s.readOnly)}
	_, err := daemon.Agents.Show(cmd.Context(), connect.NewRequest(&controlpb.ShowAgentRequest{Agent: s.agent}))
	if fault.KindOf(err) == fault.NotFound {
		_, err = daemon.Agents.Create(cmd.Context(), connect.NewRequest(&controlpb.CreateAgentRequest{Name: s.agent, Settings: settings}))
	} else if err == nil {
		_, err = daemon.Agents.Set(cmd.Context(), connect.NewRequest(&controlpb.SetAgentRequest{Agent: s.agent, Settings: settings}))
	}
	if err != nil {
		return err
	}
	may := "may do everything in its room in the sandbox: run commands, write files, install"
	if s.readOnly {
		may = "may only read"
	}
	if _, err := writef(c.out, "%s works as the agent %s, which %s. Change that: osaurus-sandbox agent set %s %s=%v\n",
		client.Title, s.agent, may, s.agent, tools.Exec, s.readOnly); err != nil {
		return err
	}
	r, err := daemon.Status(cmd.Context(), connect.NewRequest(&controlpb.StatusRequest{}))
	if err != nil || supervisor.State(r.Msg.Status.State) != supervisor.NotProvisioned {
		return err
	}
	_, err = fmt.Fprintln(c.out, "There is no sandbox yet. Make it once: osaurus-sandbox up")
	return err
}

// clientFile is where a client keeps its servers: what a link leads to, if it is one.
func clientFile(client clients.Client) (string, error) {
	user, err := os.UserHomeDir()
	if err != nil {
		return "", fault.New(fault.Unavailable, "find your folder", "", err).Advise("Set HOME.")
	}
	places := clients.Places{User: user, Config: cmp.Or(os.Getenv("XDG_CONFIG_HOME"), filepath.Join(user, ".config")), Codex: cmp.Or(os.Getenv("CODEX_HOME"), filepath.Join(user, ".codex"))}
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

// change is what a client's file is to be, and what is to be kept of it beside it.
// Where there is nothing in one, there is to be none.
type change struct{ file, copy []byte }

// edit changes a client's file, and shows how.
func edit(c console, client clients.Client, dryRun bool, do func([]byte) (change, error)) (changed bool, err error) {
	const op = "edit the configuration of"
	path, err := clientFile(client)
	if err != nil {
		return false, err
	}
	before, mode, err := readClient(path)
	if err != nil {
		return false, fault.New(fault.Unavailable, op, client.Title, err).Advise("Make the file readable for you.")
	}
	after, err := do(before)
	if err != nil || bytes.Equal(before, after.file) {
		return false, err
	}
	diff, _ := tools.Diff(path, string(before), string(after.file))
	if _, err := fmt.Fprint(c.out, diff); err != nil || dryRun {
		return true, err
	}
	if len(after.copy) > 0 {
		if err := config.ReplaceFile(path+backupSuffix, after.copy, mode); err != nil {
			return false, err
		}
	}
	if now, _, err := readClient(path); err != nil || !bytes.Equal(now, before) {
		return false, fault.New(fault.Rejected, op, client.Title, errors.Join(err, errors.New("it is being changed right now"))).Advise("Quit " + client.Title + ", and try again.")
	}
	if len(after.file) > 0 {
		err = config.ReplaceFile(path, after.file, mode)
	} else {
		err = os.Remove(path)
	}
	if err == nil && len(after.copy) == 0 {
		if err = os.Remove(path + backupSuffix); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	return true, err
}

// readClient reads a client's file. None is an empty one that is to be the user's alone.
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

// undo is a client's file as it was before install, if nothing else has changed in it
// since, and otherwise without this program: most clients write into their files. No
// copy stays: what was taken out is what this program had put in, and nothing else.
func undo(client clients.Client, path string, text []byte) (change, error) {
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
