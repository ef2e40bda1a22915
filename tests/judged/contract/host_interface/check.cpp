// A file of its own: `config.sources` names it.
#include <cmath>

int check_implementation(const kc_args *inputs, const kc_args *expected, const kc_args *actual, kc_context *context) {
    if (expected->scalars[0].integer != actual->scalars[0].integer)
        return kc_fail(context, "counted %lld elements", (long long)actual->scalars[0].integer);
    auto right = kc::view_of<float, 2>(expected, 0, context), given = kc::view_of<float, 2>(actual, 0, context);
    if (context->failed || inputs->tensor_count != 1) return 1;
    for (int64_t row = 0; row < right.shape[0]; row++)
        for (int64_t column = 0; column < right.shape[1]; column++)
            if (!(std::fabs(right(row, column) - given(row, column)) <= 1e-5f))
                return kc_fail(context, "row %lld, column %lld is off", (long long)row, (long long)column);
    return 0;
}
