/* The observer in C: observe DIR REGION VERSION. See ../run.py for what it has to print. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <stillframe.h>

static void check(stillframe_status status) {
    if (status != STILLFRAME_OK) {
        fprintf(stderr, "observe: %s: %s\n", stillframe_status_name(status), stillframe_error_text());
        exit(1);
    }
}

static uint32_t crc_of(const unsigned char *bytes, size_t count) {
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < count; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? UINT32_C(0xedb88320) : 0);
    }
    return ~crc;
}

static void print_attributes(stillframe_snapshot *snapshot, const char *variable, size_t count) {
    for (size_t index = 0; index < count; index++) {
        stillframe_attribute attribute;
        check(stillframe_attribute_at(snapshot, variable, index, &attribute));
        printf("attribute %s ", attribute.name);
        uint64_t bits;
        memcpy(&bits, &attribute.real, sizeof bits);
        switch (attribute.type) {
            case STILLFRAME_BOOL: printf("bool %" PRId64 "\n", attribute.integer); break;
            case STILLFRAME_INT: printf("int %" PRId64 "\n", attribute.integer); break;
            case STILLFRAME_FLOAT: printf("float %016" PRIx64 "\n", bits); break;
            case STILLFRAME_TEXT: printf("text %s\n", attribute.text); break;
        }
    }
}

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    stillframe_observer *observer;
    check(stillframe_open(argv[2], &(stillframe_observer_options){.dir = argv[1], .wait_ms = 30000}, &observer));
    stillframe_snapshot *snapshot;
    check(stillframe_version(observer, strtoull(argv[3], NULL, 10), &snapshot));
    stillframe_snapshot_info info;
    check(stillframe_describe(snapshot, &info));
    printf("version %" PRIu64 "\n", info.version);
    print_attributes(snapshot, NULL, info.attribute_count);
    for (size_t index = 0; index < info.variable_count; index++) {
        stillframe_variable variable;
        const void *data;
        size_t bytes;
        check(stillframe_variable_at(snapshot, index, &variable));
        check(stillframe_view(snapshot, variable.name, &data, &bytes));
        printf("variable %s %s %c %s %zu shape", variable.name, variable.dtype,
               variable.order == STILLFRAME_FORTRAN ? 'F' : 'C', variable.units, variable.bytes);
        for (uint32_t axis = 0; axis < variable.rank; axis++) printf(" %zu", variable.shape[axis]);
        printf(" strides");
        for (uint32_t axis = 0; axis < variable.rank; axis++) printf(" %td", variable.strides[axis]);
        printf(" crc %08" PRIx32 "\n", crc_of(data, bytes));
        print_attributes(snapshot, variable.name, variable.attribute_count);
    }
    check(stillframe_release(snapshot));
    check(stillframe_observer_close(observer));
    return 0;
}
