package snapshot

// Entry is one key and its value as a reader hands it out.
type Entry struct {
	// Key is the unescaped key: 1 to 1024 bytes of valid UTF-8. Value is one
	// canonical JSON value. Both are valid until the reader's next call.
	Key, Value []byte
	// Line is the 1-based line of an NDJSON body; of a JSON object it is the
	// 1-based place of the member.
	Line int
}

// AppendEntry appends the restore line of one entry, its line feed included:
// {"taskId":"task-1","key":"offsets","value":…}, or without taskId where taskID
// is Shared. The value must be canonical. In names only '"', '\' and control
// characters below U+0020 are escaped; the bytes are what digests are made of,
// so this rendering is frozen.
func AppendEntry[K string | []byte](dst []byte, taskID string, key K, value []byte) []byte {
	dst = appendHead(dst, taskID, key)
	dst = append(dst, value...)
	return append(dst, '}', '\n')
}

// EntrySize is the length of what AppendEntry would append, in bytes.
func EntrySize[K string | []byte](taskID string, key K, value []byte) int {
	size := len(`{"key":"","value":}`) + 1 + escapedSize(key) + len(value)
	if taskID != Shared {
		size += len(`"taskId":"",`) + escapedSize(taskID)
	}
	return size
}

// appendHead appends a restore line up to where the value begins.
func appendHead[K string | []byte](dst []byte, taskID string, key K) []byte {
	dst = append(dst, '{')
	if taskID != Shared {
		dst = append(dst, `"taskId":"`...)
		dst = appendEscaped(dst, taskID)
		dst = append(dst, `",`...)
	}
	dst = append(dst, `"key":"`...)
	dst = appendEscaped(dst, key)
	return append(dst, headEnd...)
}

// linePrefix is what every restore line of a task begins with, up to where the
// text of the key begins.
func linePrefix(taskID string) []byte {
	head := appendHead(nil, taskID, "")
	return head[:len(head)-len(headEnd)]
}

// headEnd is what stands between the text of a key and the value.
const headEnd = `","value":`

const hexDigits = "0123456789abcdef"

// appendEscaped appends s as it stands between the quotes of a JSON string.
func appendEscaped[S string | []byte](dst []byte, s S) []byte {
	start := 0
	for i := range len(s) {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, s[start:i]...)
		start = i + 1
		if short := shortEscape(c); short != 0 {
			dst = append(dst, '\\', short)
		} else {
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	return append(dst, s[start:]...)
}

func escapedSize[S string | []byte](s S) int {
	size := len(s)
	for i := range len(s) {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		if shortEscape(c) != 0 {
			size++
		} else {
			size += len(`\u0000`) - 1
		}
	}
	return size
}

// shortEscape is the letter after the backslash of a two-byte escape, 0 where
// there is none.
func shortEscape(c byte) byte {
	switch c {
	case '"', '\\':
		return c
	case '\b':
		return 'b'
	case '\f':
		return 'f'
	case '\n':
		return 'n'
	case '\r':
		return 'r'
	case '\t':
		return 't'
	}
	return 0
}
