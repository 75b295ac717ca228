import java.io.IOException;
import java.math.BigDecimal;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;

/** java Worker.java URL TASK [ATTEMPT]: goes on from the latest checkpoint, waits for the next ones, hands its state in. */
public class Worker {
    static final Set<String> ENDED = Set.of("checkpoint_completed", "checkpoint_expired", "checkpoint_aborted",
            "checkpoint_deleted", "checkpoint_not_found");
    static final Set<String> NOTHING_YET = Set.of("no_completed_checkpoint", "task_not_in_checkpoint");

    @SuppressWarnings("serial")
    static class Refused extends RuntimeException {
        final String code;

        Refused(Map<String, Object> problem) {
            super((String) problem.get("detail"));
            code = (String) problem.get("code");
        }
    }

    final HttpClient http = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1)
            .connectTimeout(Duration.ofSeconds(10)).build();
    final Map<String, Object> state = new LinkedHashMap<>(Map.of("count", BigDecimal.ZERO));
    final Map<String, Object> life = new LinkedHashMap<>();
    final String url, name, task;

    Worker(String url, String name, String... attempt) {
        this.url = url;
        this.name = name;
        // A URLEncoder is for forms, where a space may be a plus; in a path it may not.
        task = URLEncoder.encode(name, StandardCharsets.UTF_8).replace("+", "%20");
        for (var count : attempt) life.put("attempt", Long.valueOf(count));
    }

    public static void main(String[] arguments) throws InterruptedException {
        new Worker(arguments[0], arguments[1], Arrays.copyOfRange(arguments, 2, arguments.length)).run();
    }

    void run() throws InterruptedException {
        var job = (Map<?, ?>) call("GET", "/jobs/default", List.of()).get(0).get("status");
        life.put("epoch", job.get("epoch"));
        try {
            for (var entry : call("GET", "/checkpoints/latest/restore?taskId=" + task, List.of()))
                state.put((String) entry.get("key"), entry.get("value"));
        } catch (Refused refused) {
            if (!NOTHING_YET.contains(refused.code)) throw refused;
        }
        while (true) {
            var pending = call("GET", "/checkpoints?status=pending&notAckedBy=" + task + "&wait=30", List.of());
            var found = new ArrayList<>((List<?>) pending.get(0).get("checkpoints"));
            Collections.reverse(found); // the oldest first
            for (var checkpoint : found) takePart("/checkpoints/" + ((Map<?, ?>) checkpoint).get("checkpointId"));
        }
    }

    void takePart(String path) throws InterruptedException {
        try {
            // The work of a real worker would be beside this.
            state.computeIfPresent("count", (key, count) -> ((BigDecimal) count).add(BigDecimal.ONE));
            var part = new ArrayList<Object>();
            state.forEach((key, value) -> part.add(entry("key", key, "value", value)));
            var upload = new StringBuilder(path + "/task/state?taskId=" + task + "&ack=true");
            life.forEach((parameter, value) -> upload.append("&" + parameter + "=" + value));
            call("PUT", upload.toString(), part, "application/x-ndjson");
        } catch (RuntimeException why) {
            var code = why instanceof Refused refused ? refused.code : "";
            if (code.startsWith("stale_")) throw why; // the fleet has recovered, or a later life has taken over
            if (code.equals("ack_conflict") || ENDED.contains(code)) return; // it has the part, or is over: go on
            var decline = entry("taskId", name, "reason", "" + why.getMessage());
            decline.putAll(life);
            try {
                call("POST", path + "/abort", List.of(decline));
            } catch (Refused refused) {
                if (!ENDED.contains(refused.code)) throw refused;
            }
        }
    }

    static Map<String, Object> entry(Object... members) {
        var made = new LinkedHashMap<String, Object>();
        for (int i = 0; i < members.length; i += 2) made.put((String) members[i], members[i + 1]);
        return made;
    }

    List<Map<String, Object>> call(String method, String path, List<?> lines) throws InterruptedException {
        return call(method, path, lines, "application/json");
    }

    /** Sends and receives lines of JSON. A server or a store that is away says nothing about checkpoints: it waits for them. */
    @SuppressWarnings("unchecked")
    List<Map<String, Object>> call(String method, String path, List<?> lines, String media) throws InterruptedException {
        var body = lines.stream().map(line -> Json.write(line) + "\n").collect(Collectors.joining());
        var request = HttpRequest.newBuilder(URI.create(url + path)).timeout(Duration.ofSeconds(90));
        var token = System.getenv("CHECKPOINTD_TOKEN");
        if (token != null) request.header("Authorization", "Bearer " + token);
        if (body.isEmpty()) request.method(method, BodyPublishers.noBody());
        else request.method(method, BodyPublishers.ofString(body)).header("Content-Type", media);
        while (true) {
            HttpResponse<String> answer = null;
            try {
                answer = http.send(request.build(), BodyHandlers.ofString());
                if (answer.statusCode() == 200)
                    return answer.body().lines().map(line -> (Map<String, Object>) Json.read(line)).toList();
            } catch (IOException | IllegalArgumentException away) {
                // not there, broken off in the middle, or a proxy's page and no JSON
            }
            int status = answer == null ? 503 : answer.statusCode();
            var form = answer == null ? "" : answer.headers().firstValue("Content-Type").orElse("");
            // A page of a proxy has no word about the checkpoint, and 429 asks to wait.
            if (form.contains("problem+json") && status != 429 && (status < 500 || status == 507))
                throw new Refused((Map<String, Object>) Json.read(answer.body()));
            System.err.println(method + " " + path + ": " + (answer == null ? "no answer" : status) + ", trying again");
            var seconds = answer == null ? "" : answer.headers().firstValue("Retry-After").orElse("");
            Thread.sleep(seconds.matches("[1-9][0-9]?") ? 1000 * Long.parseLong(seconds) : 200);
            // It may be over, perhaps by what was sent.
            if (method.equals("PUT") && !"pending".equals(call("GET", path.replaceAll("/task/.*", ""), List.of()).get(0).get("status")))
                return List.of();
        }
    }

    /**
     * JSON to maps, lists, strings, numbers, booleans and null, and back; the JDK has none. Take a library if you have
     * one, and one that keeps numbers exact: a double would round 2^53 + 1. It trusts the server to send only JSON.
     */
    static class Json {
        final String text;
        int at;

        Json(String text) {
            this.text = text;
        }

        static Object read(String text) {
            var json = new Json(text);
            var value = json.value();
            json.space();
            if (json.at != text.length()) throw new IllegalArgumentException("no JSON: " + text);
            return value;
        }

        Object value() {
            space();
            switch (peek()) {
                case '{': {
                    var object = new LinkedHashMap<String, Object>();
                    for (at++; !skip('}'); skip(',')) {
                        space();
                        var key = string();
                        if (!skip(':')) throw new IllegalArgumentException("no JSON: " + text);
                        object.put(key, value());
                    }
                    return object;
                }
                case '[': {
                    var list = new ArrayList<Object>();
                    for (at++; !skip(']'); skip(',')) list.add(value());
                    return list;
                }
                case '"':
                    return string();
                default: {
                    int from = at;
                    while (at < text.length() && ",]} \t\r\n".indexOf(text.charAt(at)) < 0) at++;
                    var word = text.substring(from, at);
                    return switch (word) {
                        case "null" -> null;
                        case "true", "false" -> Boolean.valueOf(word);
                        default -> new BigDecimal(word);
                    };
                }
            }
        }

        String string() {
            var made = new StringBuilder();
            for (at++; peek() != '"'; at++) {
                char c = peek();
                if (c == '\\') {
                    at++;
                    switch (peek()) {
                        case 'b' -> c = '\b';
                        case 'f' -> c = '\f';
                        case 'n' -> c = '\n';
                        case 'r' -> c = '\r';
                        case 't' -> c = '\t';
                        case 'u' -> {
                            c = (char) Integer.parseInt(text.substring(at + 1, at + 5), 16);
                            at += 4;
                        }
                        default -> c = peek();
                    }
                }
                made.append(c);
            }
            at++;
            return made.toString();
        }

        char peek() {
            if (at >= text.length()) throw new IllegalArgumentException("no JSON: " + text);
            return text.charAt(at);
        }

        void space() {
            while (at < text.length() && " \t\r\n".indexOf(text.charAt(at)) >= 0) at++;
        }

        boolean skip(char wanted) {
            space();
            if (peek() != wanted) return false;
            at++;
            return true;
        }

        static String write(Object value) {
            if (value instanceof Map<?, ?> object)
                return object.entrySet().stream().map(e -> write(e.getKey()) + ":" + write(e.getValue()))
                        .collect(Collectors.joining(",", "{", "}"));
            if (value instanceof List<?> list)
                return list.stream().map(Json::write).collect(Collectors.joining(",", "[", "]"));
            if (!(value instanceof String text)) return String.valueOf(value);
            return text.chars().mapToObj(c -> c < ' ' || c == '"' || c == '\\' ? String.format("\\u%04x", c) : "" + (char) c)
                    .collect(Collectors.joining("", "\"", "\""));
        }
    }
}
