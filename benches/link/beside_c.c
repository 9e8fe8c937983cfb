/* What link-bench does, by the calls of the system and of OpenSSL alone: a file in shared memory goes to the memory of another
 * thread, over a connection to this machine.
 *
 * beside_c plain MIB ROUNDS   sendfile(2) and recv(2)
 * beside_c tls MIB ROUNDS     pread(2), SSL_write and SSL_read, TLS 1.3 with TLS_AES_128_GCM_SHA256
 *
 * Prints the seconds of each round, from the call to the receiver's byte that says it has all, and those that
 * processors worked for it. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define CHECK(what) do { if (!(what)) { perror(#what); exit(1); } } while (0)
#define PIECE (256 << 10)

static size_t bytes;
static int rounds, is_tls;
static SSL_CTX *server_context, *client_context;

static double now(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec + 1e-9 * time.tv_nsec;
}

/* A certificate of its own for the server: what it proves is not measured. */
static void make_contexts(void) {
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *certificate = X509_new();
    X509_gmtime_adj(X509_getm_notBefore(certificate), -3600);
    X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
    X509_set_pubkey(certificate, key);
    CHECK(X509_sign(certificate, key, EVP_sha256()));
    server_context = SSL_CTX_new(TLS_server_method());
    client_context = SSL_CTX_new(TLS_client_method());
    CHECK(SSL_CTX_use_certificate(server_context, certificate) == 1 && SSL_CTX_use_PrivateKey(server_context, key) == 1);
    CHECK(SSL_CTX_set_ciphersuites(client_context, "TLS_AES_128_GCM_SHA256") == 1);
    /* With READ_AHEAD set, OpenSSL receives more than a record at once. */
    SSL_CTX *contexts[] = {server_context, client_context};
    for (int i = 0; i < 2; i++) {
        SSL_CTX_set_min_proto_version(contexts[i], TLS1_3_VERSION);
        if (getenv("READ_AHEAD")) {
            SSL_CTX_set_read_ahead(contexts[i], 1);
            SSL_CTX_set_default_read_buffer_len(contexts[i], PIECE);
        }
    }
}

static void *receive(void *argument) {
    int listener = *(int *)argument, one = 1, socket = accept(listener, NULL, NULL);
    CHECK(socket >= 0);
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    SSL *ssl = NULL;
    if (is_tls) {
        ssl = SSL_new(server_context);
        SSL_set_fd(ssl, socket);
        CHECK(SSL_accept(ssl) == 1);
    }
    char *into = malloc(bytes);
    memset(into, 1, bytes);
    for (int round = 0; round < rounds; round++) {
        for (size_t at = 0; at < bytes;) {
            size_t left = bytes - at;
            ssize_t count = is_tls ? SSL_read(ssl, into + at, left < PIECE ? left : PIECE) : recv(socket, into + at, left, MSG_WAITALL);
            CHECK(count > 0);
            at += count;
        }
        CHECK((is_tls ? SSL_write(ssl, into, 1) : send(socket, into, 1, 0)) == 1);
    }
    for (size_t at = 0; at < bytes; at += 4096) CHECK(into[at] == 7);
    return NULL;
}

int main(int count, char **arguments) {
    if (count != 4) {
        fprintf(stderr, "usage: beside_c tls|plain MIB ROUNDS\n");
        return 1;
    }
    is_tls = strcmp(arguments[1], "tls") == 0;
    bytes = (size_t)atoi(arguments[2]) << 20;
    rounds = atoi(arguments[3]);
    char path[64];
    snprintf(path, sizeof path, "/dev/shm/beside-c-%d", getpid());
    int file = open(path, O_RDWR | O_CREAT | O_EXCL, 0600), one = 1;
    CHECK(file >= 0 && unlink(path) == 0);
    char *content = malloc(bytes);
    memset(content, 7, bytes);
    for (size_t at = 0; at < bytes;) {
        ssize_t written = write(file, content + at, bytes - at);
        CHECK(written > 0);
        at += written;
    }
    free(content);
    if (is_tls) make_contexts();

    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0), connection = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(bind(listener, (struct sockaddr *)&address, length) == 0 && listen(listener, 1) == 0);
    CHECK(getsockname(listener, (struct sockaddr *)&address, &length) == 0);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, receive, &listener) == 0);
    CHECK(connect(connection, (struct sockaddr *)&address, length) == 0);
    setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    SSL *ssl = NULL;
    if (is_tls) {
        ssl = SSL_new(client_context);
        SSL_set_fd(ssl, connection);
        CHECK(SSL_connect(ssl) == 1);
    }
    char *piece = malloc(PIECE), answer;
    for (int round = 0; round < rounds; round++) {
        double begin = now(CLOCK_MONOTONIC), worked = now(CLOCK_PROCESS_CPUTIME_ID);
        off_t at = 0;
        while ((size_t)at < bytes) {
            if (is_tls) {
                ssize_t some = pread(file, piece, PIECE, at);
                CHECK(some > 0 && SSL_write(ssl, piece, some) == some);
                at += some;
            } else {
                CHECK(sendfile(connection, file, &at, bytes - at) > 0);
            }
        }
        CHECK((is_tls ? SSL_read(ssl, &answer, 1) : recv(connection, &answer, 1, 0)) == 1);
        printf("%.9f %.9f\n", now(CLOCK_MONOTONIC) - begin, now(CLOCK_PROCESS_CPUTIME_ID) - worked);
    }
    pthread_join(thread, NULL);
    return 0;
}
