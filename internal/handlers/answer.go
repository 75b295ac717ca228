package handlers

import (
	"net/http"
	"strconv"
)

// writeBytes answers 200 with a body that is in memory.
func writeBytes(w http.ResponseWriter, mediaType string, body []byte) error {
	w.Header().Set("Content-Type", mediaType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, err := w.Write(body)
	return err //nolint:wrapcheck // It goes to refuse, which breaks the connection off.
}

// nameCheckpoint tells which checkpoint an answer is from.
func nameCheckpoint(w http.ResponseWriter, id int64) {
	w.Header().Set("Checkpoint-Id", strconv.FormatInt(id, 10))
}
