package plugins_test

import (
	"bytes"
	"os"
	"reflect"
	"testing"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/plugins"
)

func parse(t *testing.T, text string) plugins.Recipe {
	t.Helper()
	r, err := plugins.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestRecipeOfThePage reads the recipe of the format's own page, word for word.
func TestRecipeOfThePage(t *testing.T) {
	text := readFile(t, "testdata/python-data-tools.json")
	r := parse(t, string(text))
	want := plugins.Recipe{
		Name: "Python Data Tools", Description: "Data analysis toolkit with pandas and matplotlib", Version: "1.0.0", Author: "your-name",
		Dependencies: []plugins.Dependency{"python3", "py3-pip"},
		Setup:        "pip install --user pandas matplotlib seaborn",
		Files: map[plugins.FilePath]string{
			"helpers.py": "import pandas as pd\nimport matplotlib\nmatplotlib.use('Agg')\nimport matplotlib.pyplot as plt\n"},
		Tools: []plugins.Tool{{
			ID: "analyze_csv", Description: "Load a CSV file and return summary statistics",
			Parameters: map[plugins.ParamName]plugins.Param{"file": {Type: plugins.String, Description: "Path to the CSV file"}},
			Run:        `cd $HOME/plugins/python-data-tools && python3 -c "import pandas as pd; df = pd.read_csv('$PARAM_FILE'); print(df.describe().to_string())"`,
		}},
		Secrets:     []config.SecretName{"OPENAI_API_KEY"},
		Permissions: plugins.Permissions{Network: plugins.NetworkOutbound, Inference: true},
	}
	if !reflect.DeepEqual(r, want) {
		t.Errorf("read\n%+v\nnot\n%+v", r, want)
	}
	if id, err := r.ID(); err != nil || id != "python-data-tools" {
		t.Errorf("its id is %q, %v", id, err)
	}
}

// TestEncode writes what was read, and reads what was written.
func TestEncode(t *testing.T) {
	r := parse(t, string(readFile(t, "testdata/python-data-tools.json")))
	once, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	again := parse(t, string(once))
	if !reflect.DeepEqual(r, again) {
		t.Errorf("read again it is\n%+v\nnot\n%+v", again, r)
	}
	twice, err := again.Encode()
	if err != nil || !bytes.Equal(once, twice) {
		t.Errorf("written again it is\n%s\nnot\n%s", twice, once)
	}
	hash, err := r.Hash()
	if err != nil {
		t.Fatal(err)
	}
	r.ModifiedAt = time.Date(2026, 5, 31, 12, 0, 0, 1000, time.UTC)
	if later, err := r.Hash(); err != nil || later != hash {
		t.Errorf("its hash changes with the time: %s, %s", hash, later)
	}
	r.Setup += " scipy"
	if other, err := r.Hash(); err != nil || other == hash {
		t.Errorf("its hash does not change with setup: %s, %v", other, err)
	}
}
