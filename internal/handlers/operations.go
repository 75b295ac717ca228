package handlers

import (
	"reflect"
	"strings"

	"github.com/checkpointd/checkpointd/api"
	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/load"
)

// operation is what the gate knows of one operation of the contract.
type operation struct {
	// produces are the media types of its success.
	produces []string
	// bodyLimit is how many bytes its JSON body may have, limitName the limit's name.
	bodyLimit int64
	limitName string
	// streams tells that its body or its answer is a stream: the handler reads the body
	// itself, and the budget of a small request is not for the whole.
	streams bool
	// heavy tells that it takes several steps in the store, or reads what may be large.
	heavy bool
	// rule is who may use it, class which bound it falls under.
	rule  rule
	class load.Class
	// tagged tells that it has an If-None-Match.
	tagged bool
	// query are the query parameters that it has, nil for one that has none at all.
	query []queryParameter
}

const (
	mediaJSON    = "application/json"
	mediaNDJSON  = "application/x-ndjson"
	mediaProblem = "application/problem+json"
	mediaText    = "text/plain"
	mediaYAML    = "application/yaml"
	mediaEvents  = "text/event-stream"

	// maxBody is how many bytes a JSON body may have where nothing else is said. It
	// takes the largest of all, 10 000 task names of a kilobyte or a value of 16 MiB.
	maxBody = 16 << 20
	// bodySlack is room for white space and for what stands around the largest value.
	bodySlack = 64 << 10
)

// operations has every operation of the contract, by the name of its method in the
// generated interface; what differs from the ordinary is said by hand.
var operations = func() map[string]operation {
	all := map[string]operation{}
	for method := range reflect.TypeFor[api.StrictServerInterface]().Methods() {
		all[method.Name] = operation{
			produces:  []string{mediaJSON},
			bodyLimit: maxBody + bodySlack, limitName: "bodyBytes",
			rule:   ruleOf(method.Name, method.Type.In(1)),
			class:  classes[method.Name],
			tagged: hasTags(method.Type.In(1)),
			query:  queryParametersOf(method.Type.In(1)),
		}
	}
	adjust := func(change func(*operation), names ...string) {
		for _, name := range names {
			o := all[name]
			change(&o)
			all[name] = o
		}
	}
	adjust(func(o *operation) { o.bodyLimit, o.limitName = coordinator.MaxAckBody, "ackBodyBytes" }, "Acknowledge")
	adjust(func(o *operation) { o.limitName = "valueBytes" }, "PutSharedEntry", "PutSharedEntryByKey")
	adjust(func(o *operation) { o.bodyLimit, o.limitName = coordinator.MaxObjectUpload, "objectUploadBytes" }, "UploadPart")
	adjust(func(o *operation) { o.streams = true }, "UploadPart", "ImportJob", "RestoreCheckpoint", "RestoreLatest", "ExportJob", "GetMetrics", "StreamEvents")
	adjust(func(o *operation) { o.heavy = true }, "CleanupCheckpoints", "DeleteJob", "GetStats",
		"GetSnapshot", "GetLatestSnapshot", "GetManifest", "GetLatestManifest", "HeadRestore", "HeadRestoreLatest")
	adjust(func(o *operation) { o.produces = []string{mediaNDJSON} }, "RestoreCheckpoint", "RestoreLatest", "ExportJob", "HeadRestore", "HeadRestoreLatest")
	adjust(func(o *operation) { o.produces = []string{mediaText} }, "GetManifest", "GetLatestManifest")
	adjust(func(o *operation) { o.produces = []string{mediaText, "application/openmetrics-text"} }, "GetMetrics")
	adjust(func(o *operation) { o.produces = []string{mediaYAML} }, "GetContract")
	adjust(func(o *operation) { o.produces = []string{mediaEvents} }, "StreamEvents")
	// A success of these has no body, so there is nothing that could be unacceptable.
	adjust(func(o *operation) { o.produces = nil }, "DeleteCheckpoint", "DeleteSharedEntry", "DeleteSharedEntryByKey",
		"ClearSharedState", "PatchSharedState", "PutSharedEntry", "PutSharedEntryByKey", "DeleteJob", "ForgetTask")
	return all
}()

// hasTags tells whether an operation has an If-None-Match.
func hasTags(request reflect.Type) bool {
	params, has := request.FieldByName("Params")
	if has {
		_, has = params.Type.FieldByName("IfNoneMatch")
	}
	return has
}

// queryParametersOf reads the query parameters of an operation from the Params that the
// generated code declares for it.
func queryParametersOf(request reflect.Type) []queryParameter {
	params, has := request.FieldByName("Params")
	if !has {
		return nil
	}
	known := []queryParameter{}
	for field := range params.Type.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("form"), ",")
		if name == "" {
			continue // a header
		}
		kind := field.Type.Kind()
		if kind == reflect.Pointer {
			kind = field.Type.Elem().Kind()
		}
		known = append(known, queryParameter{name: name, kind: kind, field: field.Index})
	}
	return known
}
