package plugins

// Skeleton returns a working recipe to start from. Its tool uses an argument safely.
func Skeleton(name string) Recipe {
	choice := Literal("words")
	return Recipe{
		Name: name, Description: "Say in a sentence what the plugin is for", Version: "0.1.0",
		Files: map[FilePath]string{
			"scripts/count.sh": "#!/bin/sh\n# Arguments of the tool are in the environment: $PARAM_FILE, $PARAM_UNIT.\nset -eu\n" +
				"case \"$PARAM_UNIT\" in\nlines) wc -l < \"$PARAM_FILE\" ;;\n*) wc -w < \"$PARAM_FILE\" ;;\nesac\n",
		},
		Tools: []Tool{{
			ID: "count", Description: "Counts the words or lines of a text file. Use it to see how long a text is.",
			Parameters: map[ParamName]Param{
				"file": {Type: String, Description: "Absolute path of the file"},
				"unit": {Type: String, Description: "What to count", Default: &choice, Enum: []Literal{"words", "lines"}},
			},
			Run: "sh scripts/count.sh",
		}},
		Permissions: Permissions{Network: NetworkNone},
	}
}
