package worker_test

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

func TestCodesAreThoseOfTheContract(t *testing.T) {
	t.Parallel()
	var contract struct {
		Components struct {
			Schemas struct {
				ProblemCode struct {
					Enum []string `yaml:"enum"`
				} `yaml:"ProblemCode"`
			} `yaml:"schemas"`
		} `yaml:"components"`
	}
	text, err := os.ReadFile("../api/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &contract); err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("code.go")
	if err != nil {
		t.Fatal(err)
	}
	var ours []string
	for _, constant := range regexp.MustCompile(`Code\w+ +Code = "(\w+)"`).FindAllStringSubmatch(string(source), -1) {
		ours = append(ours, constant[1])
	}
	slices.Sort(ours)
	if diff := cmp.Diff(contract.Components.Schemas.ProblemCode.Enum, ours); diff != "" {
		t.Error(diff)
	}
}

func TestAProgramThatUsesTheWorkerPullsInNothingButTheStandardLibrary(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".").CombinedOutput()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, out)
	}
	const ours = "github.com/checkpointd/checkpointd/"
	if got := strings.Fields(string(out)); !slices.Equal(got, []string{ours + "engine", ours + "worker"}) {
		t.Errorf("a user of the worker pulls in %q", got)
	}
}
