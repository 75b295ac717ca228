package apitest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// Answer is what a server said.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Do sends the request and reads the whole answer, or up to a text when until is not nil.
func Do(client *http.Client, request *http.Request, until *string) (*Answer, error) {
	response, err := client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("send the request of an example: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := read(response.Body, until)
	if err != nil {
		return nil, fmt.Errorf("read the answer to an example: %w", err)
	}
	return &Answer{Status: response.StatusCode, Header: response.Header, Body: body}, nil
}

// read reads up to until, or to the end where that comes first.
func read(body io.Reader, until *string) ([]byte, error) {
	if until == nil {
		return io.ReadAll(body)
	}
	var all []byte
	piece := make([]byte, 4<<10)
	for {
		n, err := body.Read(piece)
		all = append(all, piece[:n]...)
		switch {
		case bytes.Contains(all, []byte(*until)) || errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return all, fmt.Errorf("it did not say %q in time, but %q: %w", *until, all, err)
		}
	}
}

// Check tells every difference between the answer and what the example promises, nil
// when there is none.
func (r *Response) Check(answer *Answer) error {
	var wrong []error
	if answer.Status != r.Status {
		wrong = append(wrong, fmt.Errorf("status %d, want %d; body: %.500s", answer.Status, r.Status, answer.Body))
	}
	for name, want := range r.Headers {
		got := answer.Header.Get(name)
		if name == "Content-Type" && !strings.Contains(want, ";") {
			got, _, _ = strings.Cut(got, ";") // The charset is not part of the promise.
		}
		if got != want {
			wrong = append(wrong, fmt.Errorf("header %s is %q, want %q", name, got, want))
		}
	}
	if r.Text != nil && string(answer.Body) != *r.Text {
		wrong = append(wrong, fmt.Errorf("body is %q, want %q", answer.Body, *r.Text))
	}
	if r.Until != nil && !bytes.Contains(answer.Body, []byte(*r.Until)) {
		wrong = append(wrong, fmt.Errorf("body ended without %q: %q", *r.Until, answer.Body))
	}
	if r.Body != nil {
		want, err := decode(r.Body)
		if err != nil {
			return err
		}
		got, err := decode(answer.Body)
		if err != nil {
			return errors.Join(append(wrong, err)...)
		}
		wrong = append(wrong, differences("", want, got)...)
	}
	return errors.Join(wrong...)
}

func decode(text []byte) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, fmt.Errorf("body is no JSON (%w): %.500s", err, text)
	}
	return value, nil
}

// differences compares what want has: members of objects that want does not name are
// not looked at. at is the JSON pointer of the place.
func differences(at string, want, got any) []error {
	switch want := want.(type) {
	case map[string]any:
		object, ok := got.(map[string]any)
		if !ok {
			return []error{fmt.Errorf("%q is %v, want an object", at, got)}
		}
		var wrong []error
		for name, value := range want {
			member, ok := object[name]
			if !ok {
				wrong = append(wrong, fmt.Errorf("%q is missing", at+"/"+name))
				continue
			}
			wrong = append(wrong, differences(at+"/"+name, value, member)...)
		}
		return wrong
	case []any:
		list, ok := got.([]any)
		if !ok || len(list) != len(want) {
			return []error{fmt.Errorf("%q is %v, want %d items", at, got, len(want))}
		}
		var wrong []error
		for i, value := range want {
			wrong = append(wrong, differences(fmt.Sprintf("%s/%d", at, i), value, list[i])...)
		}
		return wrong
	}
	if want != got {
		return []error{fmt.Errorf("%q is %v, want %v", at, got, want)}
	}
	return nil
}
