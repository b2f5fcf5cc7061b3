package main

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func newRoot(c console) *cobra.Command {
	root := &cobra.Command{
		Use:   "osaurus-sandbox",
		Short: "A Linux VM for AI agents to work in",
		Long:  "Osaurus Sandbox gives AI agents on this computer a Linux virtual machine to work in.\n\n" + exitCodes,
		Example: `  osaurus-sandbox doctor                          what this computer can do, and what is missing
  osaurus-sandbox up                              have the sandbox running
  osaurus-sandbox exec --root -- uname -a         run a command in it
  osaurus-sandbox status --watch                  see how it is
  osaurus-sandbox down                            power it off
  osaurus-sandbox secret set AGENT TOKEN          keep what an agent needs to know
  osaurus-sandbox boot -- uname -a                run a command in a throwaway VM`,
		Args:          cobra.NoArgs,
		RunE:          showHelp,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetIn(c.in)
	root.SetOut(c.out)
	root.SetErr(c.err)
	root.AddCommand(newMachineCommands(c)...)
	root.AddCommand(
		newAudit(c), newBoot(c), newConfig(c), newDiagnose(c), newDoctor(), newEvents(c), newExec(c), newLogs(c), newPack(c),
		newSecret(c), newServe(c), newService(c), newStatus(c), newVersion(),
	)
	return root
}

// showHelp is what a command does that only has others below it. Without it
// cobra takes any unknown word for a call for help.
func showHelp(cmd *cobra.Command, _ []string) error { return cmd.Help() }

func newVersion() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Say which version this is",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := struct {
				Version  string `json:"version"`
				Revision string `json:"revision,omitempty"`
				Go       string `json:"go"`
				Platform string `json:"platform"`
			}{"unknown", "", runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
			if info, ok := debug.ReadBuildInfo(); ok {
				v.Version = info.Main.Version
				for _, s := range info.Settings {
					if s.Key == "vcs.revision" {
						v.Revision = s.Value
					}
				}
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), v)
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "osaurus-sandbox %s, %s, %s\n", v.Version, v.Go, v.Platform)
			return err
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

func jsonFlag(cmd *cobra.Command, to *bool) {
	cmd.Flags().BoolVar(to, "json", false, "print JSON")
}

func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
