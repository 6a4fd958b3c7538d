/* Fragments from the tables of the wire (proto/methods.def, proto/errors.def). */
#include "manual/manual.h"
#include "proto/errors.h"
#include "proto/methods.h"

static void write_parameter(FILE *out, enum method method, enum parameter parameter)
{
    const struct parameter_info *info = parameter_info(parameter);
    bool required = (method_info(method)->required >> parameter & 1u) != 0;
    fprintf(out, "\t*%s*", info->name);
    fputs(required ? " (required)" : "", out);
    fputs(": ", out);
    manual_text(out, info->meaning);
    if (!required && *info->default_text != '\0') {
        fputs("; left out: ", out);
        manual_text(out, info->default_text);
    }
    fputs(".\n\n", out);
}

static void write_methods(FILE *out)
{
    for (size_t i = 0; i < METHODS; i++) {
        enum method method = (enum method)i;
        const struct method_info *info = method_info(method);
        fprintf(out, "*%s*\n\t", info->name);
        manual_text(out, info->summary);
        fputs(". Result: ", out);
        manual_text(out, info->result);
        fputs(".\n\n", out);
        for (size_t j = 0; method_parameter(method, j) != PARAMETERS; j++)
            write_parameter(out, method, method_parameter(method, j));
    }
}

static void write_errors(FILE *out)
{
    for (size_t i = 0; i < ERROR_KINDS; i++) {
        enum error_kind kind = (enum error_kind)i;
        fprintf(out, "*%d* %s\n\t", error_code(kind), error_kind_name(kind));
        manual_text(out, error_when(kind));
        fputs(".\n\n", out);
    }
}

const struct manual_fragment manual_of_wire[] = {
    {"methods", write_methods},
    {"errors", write_errors},
    {NULL, NULL},
};
