/* An engine that costs nothing: it speaks the dialect of `codex exec --json`, and is gone within a fraction of a
 * millisecond. What it does is said in the prompt:
 *
 *   (nothing)        asks a question; resumed, it ends with a result
 *   [[done]]         ends with a result at once
 *   [[say N SIZE]]   N messages of SIZE bytes first
 *   [[tool N SIZE]]  N outputs of a tool, of SIZE bytes each, first
 *   [[pace N RATE]]  N messages first, RATE in a second, each with the moment when it was printed
 *   [[sleep MS]]     waits before it ends
 *
 * TINY_LOG names a file that gets a line at its start and one at its end: S or E, its mark, and the moment in
 * nanoseconds of CLOCK_MONOTONIC. tiny.py is the same in Python, for machines without a compiler. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PROMPT (1 << 20)
#define SESSION "0199aaaa-bbbb-7ccc-8ddd-eeeeffff0000"

static const char *QUESTION = "Which colour should I use?";
static const char *RESULT = "{\\\"colour\\\": \\\"blue\\\", \\\"__SKILL_DONE__\\\": true}";

static long long now_ns(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * 1000000000LL + at.tv_nsec;
}

static void note(char what)
{
    const char *path = getenv("TINY_LOG"), *mark = getenv("TURNKEEPER_RUN");
    if (!path)
        return;
    char line[256];
    int length = snprintf(line, sizeof line, "%c %s %lld\n", what, mark ? mark : "-", now_ns());
    int log = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (log < 0 || write(log, line, length) != length)
        _exit(3);
    close(log);
}

static int has(int argc, char **argv, const char *word)
{
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], word))
            return 1;
    return 0;
}

static void sleep_ns(long long ns)
{
    struct timespec left = {ns / 1000000000LL, ns % 1000000000LL};
    while (ns > 0 && nanosleep(&left, &left))
        ;
}

static void say(long number, const char *text)
{
    printf("{\"type\":\"item.completed\",\"item\":{\"id\":\"item_%ld\",\"type\":\"agent_message\",\"text\":\"%s\"}}\n",
           number, text);
}

static void show(long number, const char *text)
{
    printf("{\"type\":\"item.completed\",\"item\":{\"id\":\"item_%ld\",\"type\":\"command_execution\",\"command\":\"ls\","
           "\"aggregated_output\":\"%s\",\"exit_code\":0,\"status\":\"completed\"}}\n",
           number, text);
}

static void many(const char *order, void (*print)(long, const char *))
{
    char *rest;
    long count = strtol(order, &rest, 10), size = strtol(rest, NULL, 10);
    char *text = malloc(size + 1);
    memset(text, 'x', size);
    text[size] = 0;
    for (long i = 0; i < count; i++)
        print(i, text);
    free(text);
}

static void pace(const char *order)
{
    char *rest, text[32];
    long count = strtol(order, &rest, 10);
    double rate = strtod(rest, NULL);
    long long began = now_ns();
    for (long i = 0; i < count; i++) {
        sleep_ns(began + (long long)(i * 1e9 / rate) - now_ns());
        snprintf(text, sizeof text, "%lld", now_ns());
        say(i, text);
        fflush(stdout);
    }
}

static const char *after(const char *prompt, const char *word)
{
    const char *found = strstr(prompt, word);
    return found ? found + strlen(word) : NULL;
}

static void follow(const char *prompt, int is_resumed)
{
    const char *order;
    if ((order = after(prompt, "[[say ")))
        many(order, say);
    if ((order = after(prompt, "[[tool ")))
        many(order, show);
    if ((order = after(prompt, "[[pace ")))
        pace(order);
    if ((order = after(prompt, "[[sleep "))) {
        fflush(stdout);
        sleep_ns(strtol(order, NULL, 10) * 1000000LL);
    }
    say(1000000000L, is_resumed || strstr(prompt, "[[done]]") ? RESULT : QUESTION);
}

int main(int argc, char **argv)
{
    static char prompt[PROMPT], buffer[1 << 16];
    if (has(argc, argv, "--version")) {
        puts("codex-cli 0.166.0");
        return 0;
    }
    note('S');
    setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
    printf("{\"type\":\"thread.started\",\"thread_id\":\"" SESSION "\"}\n{\"type\":\"turn.started\"}\n");
    size_t length = 0;
    ssize_t part;
    while (length < PROMPT - 1 && (part = read(0, prompt + length, PROMPT - 1 - length)) > 0)
        length += part;
    follow(prompt, has(argc, argv, "resume"));
    printf("{\"type\":\"turn.completed\",\"usage\":{\"input_tokens\":10,\"cached_input_tokens\":0,\"output_tokens\":5}}\n");
    fflush(stdout);
    note('E');
    return 0;
}
