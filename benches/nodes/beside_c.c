/* What nodes-bench does, by the calls of the system and of OpenSSL alone: memory of a process on one node goes to that of a process
 * on another one.
 *
 * beside_c send plain|tls ADDRESS PORT MIB      listens, and sends for each byte that it gets
 * beside_c receive plain|tls ADDRESS PORT MIB   connects; for each line of its standard input it asks, and prints the nanoseconds
 *                                               until it has all
 *
 * TLS is 1.3 with TLS_AES_128_GCM_SHA256. With READ_AHEAD set, OpenSSL receives more than a record at once. */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define CHECK(what) do { if (!(what)) { perror(#what); exit(1); } } while (0)
#define PIECE (256 << 10)

static SSL_CTX *make_context(int is_server) {
    SSL_CTX *context = SSL_CTX_new(is_server ? TLS_server_method() : TLS_client_method());
    SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION);
    SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256");
    if (getenv("READ_AHEAD")) {
        SSL_CTX_set_read_ahead(context, 1);
        SSL_CTX_set_default_read_buffer_len(context, PIECE);
    }
    if (is_server) {
        /* What the certificate proves is not measured. */
        EVP_PKEY *key = EVP_EC_gen("P-256");
        X509 *certificate = X509_new();
        X509_gmtime_adj(X509_getm_notBefore(certificate), -3600);
        X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
        X509_set_pubkey(certificate, key);
        CHECK(X509_sign(certificate, key, EVP_sha256()));
        CHECK(SSL_CTX_use_certificate(context, certificate) == 1 && SSL_CTX_use_PrivateKey(context, key) == 1);
    }
    return context;
}

int main(int argc, char **argv) {
    if (argc != 6) {
        fprintf(stderr, "usage: beside_c send|receive plain|tls ADDRESS PORT MIB\n");
        return 2;
    }
    int is_sender = strcmp(argv[1], "send") == 0, is_tls = strcmp(argv[2], "tls") == 0, one = 1;
    size_t bytes = strtoull(argv[5], NULL, 10) << 20;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[4]))};
    CHECK(inet_pton(AF_INET, argv[3], &address.sin_addr) == 1);
    char *memory = malloc(bytes), asked = 1;
    memset(memory, 1, bytes);
    int peer = socket(AF_INET, SOCK_STREAM, 0);
    if (is_sender) {
        int listener = peer;
        setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
        CHECK(bind(listener, (struct sockaddr *)&address, sizeof address) == 0 && listen(listener, 1) == 0);
        puts("ready");
        fflush(stdout);
        CHECK((peer = accept(listener, NULL, NULL)) >= 0);
    } else {
        CHECK(connect(peer, (struct sockaddr *)&address, sizeof address) == 0);
    }
    setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    SSL *ssl = NULL;
    if (is_tls) {
        ssl = SSL_new(make_context(is_sender));
        SSL_set_fd(ssl, peer);
        CHECK((is_sender ? SSL_accept(ssl) : SSL_connect(ssl)) == 1);
    }
    if (is_sender) {
        while ((ssl ? SSL_read(ssl, &asked, 1) : recv(peer, &asked, 1, 0)) == 1)
            for (size_t at = 0; at < bytes;) {
                size_t left = bytes - at;
                ssize_t count = ssl ? SSL_write(ssl, memory + at, left < PIECE ? left : PIECE) : send(peer, memory + at, left, 0);
                CHECK(count > 0);
                at += count;
            }
        return 0;
    }
    puts("ready");
    fflush(stdout);
    char line[64];
    while (fgets(line, sizeof line, stdin)) {
        struct timespec begin, end;
        clock_gettime(CLOCK_MONOTONIC, &begin);
        CHECK((ssl ? SSL_write(ssl, &asked, 1) : send(peer, &asked, 1, 0)) == 1);
        for (size_t at = 0; at < bytes;) {
            size_t left = bytes - at;
            ssize_t count = ssl ? SSL_read(ssl, memory + at, left < PIECE ? left : PIECE) : recv(peer, memory + at, left, MSG_WAITALL);
            CHECK(count > 0);
            at += count;
        }
        clock_gettime(CLOCK_MONOTONIC, &end);
        printf("%lld\n", (end.tv_sec - begin.tv_sec) * 1000000000LL + end.tv_nsec - begin.tv_nsec);
        fflush(stdout);
    }
    return 0;
}
