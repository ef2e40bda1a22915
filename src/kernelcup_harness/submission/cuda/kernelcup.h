/* kernelcup.h: the C interface of submissions and leaderboards. C99 or newer; no torch, no CUDA headers needed.
 *
 * A submission defines one function:
 *
 *     int custom_kernel(const kc_args *inputs, kc_args *outputs, kc_context *context);
 *
 * It returns 0, or the result of kc_fail(context, "why"). It launches its work on context->stream and need not wait
 * for it. `inputs` has the tensors and scalars of the task's input, each in the order in which they occur. `outputs`
 * has the tensors of the answer, already allocated and dense, with any contents, and its scalars, which are to be set.
 * A task that works in place has no outputs: change the tensors of `inputs`.
 *
 * A leaderboard in CUDA defines generate_input, ref_kernel and, if it likes, check_implementation (see below).
 *
 * The header is included before the first line of every file, so that #include "kernelcup.h" is allowed but not
 * needed, and so that these functions have C linkage without `extern "C"`.
 */
#ifndef KERNELCUP_H
#define KERNELCUP_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KC_MAX_RANK 16
#define KC_MAX_ARGS 256
#define KC_MAX_MESSAGE 4096

/* Types of elements. Those without a C type of their own are passed as bytes: see CUDA's cuda_fp16.h, cuda_bf16.h,
 * cuda_fp8.h and cuda_fp4.h. */
typedef enum kc_dtype {
    KC_BOOL = 1,
    KC_UINT8,
    KC_INT8,
    KC_INT16,
    KC_UINT16,
    KC_INT32,
    KC_UINT32,
    KC_INT64,
    KC_UINT64,
    KC_FLOAT16,
    KC_BFLOAT16,
    KC_FLOAT32,
    KC_FLOAT64,
    KC_COMPLEX64,
    KC_COMPLEX128,
    KC_FLOAT8_E4M3FN,
    KC_FLOAT8_E5M2,
    KC_FLOAT8_E4M3FNUZ,
    KC_FLOAT8_E5M2FNUZ,
    KC_FLOAT8_E8M0FNU,
    KC_FLOAT4_E2M1FN_X2, /* two elements in each byte; shape and strides count bytes */
} kc_dtype;

enum { KC_HOST = -1, KC_DEVICE = 0 };

/* A tensor. `strides` count elements. `name` is its place in the task's input or output: "0" for the first of a tuple,
 * "weights.w1" for a value in a dictionary of a dictionary, "" for a value that is the whole input. */
typedef struct kc_tensor {
    void *data;
    const char *name;
    int32_t dtype;  /* kc_dtype */
    int32_t device; /* KC_HOST, or the number of the CUDA device */
    int32_t rank;
    int32_t unused;
    int64_t shape[KC_MAX_RANK];
    int64_t strides[KC_MAX_RANK];
} kc_tensor;

typedef enum kc_kind { KC_NONE = 0, KC_TRUTH, KC_INTEGER, KC_REAL, KC_TEXT, KC_TYPE } kc_kind;

/* A value that is no tensor. KC_TRUTH is 0 or 1 in `integer`; KC_TYPE (a torch.dtype) is a kc_dtype in `integer`. */
typedef struct kc_scalar {
    const char *name;
    int32_t kind; /* kc_kind */
    int32_t unused;
    int64_t integer;
    double real;
    const char *text;
} kc_scalar;

/* All tensors and all scalars of an input or an output. */
typedef struct kc_args {
    int32_t tensor_count;
    int32_t scalar_count;
    kc_tensor *tensors;
    kc_scalar *scalars;
} kc_args;

/* The parameters of one case: a line of `tests` or `benchmarks` in task.yml. The seed is passed apart. */
typedef struct kc_case {
    int32_t count;
    int32_t unused;
    const kc_scalar *values;
} kc_case;

typedef struct kc_context kc_context;

struct kc_context {
    void *stream;    /* the cudaStream_t to launch on; NULL without a GPU */
    int32_t device;  /* the number of the CUDA device; KC_HOST without a GPU */
    int32_t failed;  /* whether kc_fail was called */
    /* Set by KernelCup; use the functions below. */
    void *(*scratch)(kc_context *context, size_t bytes);
    kc_tensor *(*new_tensor)(kc_context *context, kc_args *args, const char *name, int32_t dtype, int32_t device,
                             int32_t rank, const int64_t *shape);
    int (*new_scalar)(kc_context *context, kc_args *args, const kc_scalar *value);
    void *owner;
    char message[KC_MAX_MESSAGE];
};

/* ---- what a submission defines ---- */

int custom_kernel(const kc_args *inputs, kc_args *outputs, kc_context *context);

/* ---- what a leaderboard defines; all return 0, or what kc_fail returned ---- */

/* Makes the input of a case with kc_new_tensor and the like, in device or host memory. The same parameters and the
 * same seed give the same input. */
int generate_input(const kc_case *parameters, uint64_t seed, kc_args *inputs, kc_context *context);

/* Makes the outputs with kc_new_tensor and computes them. Their form is what submissions must return. */
int ref_kernel(const kc_args *inputs, kc_args *outputs, kc_context *context);

/* Optional: decides whether `actual` is right. Without it, KernelCup compares with the task's tolerances. */
int check_implementation(const kc_args *inputs, const kc_args *expected, const kc_args *actual, kc_context *context);

/* ---- functions for both ---- */

/* Says why a function failed, like printf; returns a number to return. The first message of a call is kept. */
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3), unused))
#endif
static int kc_fail(kc_context *context, const char *format, ...) {
    if (!context->failed) {
        va_list values;
        va_start(values, format);
        vsnprintf(context->message, sizeof context->message, format, values);
        va_end(values);
    }
    context->failed = 1;
    return 1;
}

/* Memory for this call alone: on the device if there is one, aligned to 256 bytes, with any contents, freed by
 * KernelCup after the call. A call that uses it can be replayed; one that uses cudaMalloc goes by the wall clock. NULL
 * if there is none left, and then the call has failed with that message. */
static inline void *kc_scratch(kc_context *context, size_t bytes) {
    void *memory = context->scratch(context, bytes);
    if (memory == NULL) kc_fail(context, "no memory for %llu bytes of scratch", (unsigned long long)bytes);
    return memory;
}

static inline int64_t kc_numel(const kc_tensor *tensor) {
    int64_t count = 1;
    for (int32_t i = 0; i < tensor->rank; i++) count *= tensor->shape[i];
    return count;
}

/* Returns whether the elements lie in row-major order without gaps. */
static inline int kc_is_dense(const kc_tensor *tensor) {
    int64_t step = 1;
    for (int32_t i = tensor->rank - 1; i >= 0; i--) {
        if (tensor->shape[i] != 1 && tensor->strides[i] != step) return 0;
        step *= tensor->shape[i];
    }
    return 1;
}

/* Returns a tensor or a scalar by its place in the input; NULL, and the call has failed, if there is none. */
static inline kc_tensor *kc_tensor_at(const kc_args *args, int32_t index, kc_context *context) {
    if (index >= 0 && index < args->tensor_count) return &args->tensors[index];
    kc_fail(context, "there is no tensor %d: there are %d", (int)index, (int)args->tensor_count);
    return NULL;
}

static inline kc_scalar *kc_scalar_at(const kc_args *args, int32_t index, kc_context *context) {
    if (index >= 0 && index < args->scalar_count) return &args->scalars[index];
    kc_fail(context, "there is no scalar %d: there are %d", (int)index, (int)args->scalar_count);
    return NULL;
}

/* Returns a tensor or a scalar by its name; NULL if there is none. */
static inline kc_tensor *kc_find_tensor(const kc_args *args, const char *name) {
    for (int32_t i = 0; i < args->tensor_count; i++)
        if (!strcmp(args->tensors[i].name, name)) return &args->tensors[i];
    return NULL;
}

static inline kc_scalar *kc_find_scalar(const kc_args *args, const char *name) {
    for (int32_t i = 0; i < args->scalar_count; i++)
        if (!strcmp(args->scalars[i].name, name)) return &args->scalars[i];
    return NULL;
}

/* ---- functions for leaderboards ---- */

/* Returns a parameter of a case; NULL, and the call has failed, if the case has none of that name. */
static inline const kc_scalar *kc_parameter(const kc_case *parameters, const char *name, kc_context *context) {
    for (int32_t i = 0; i < parameters->count; i++)
        if (!strcmp(parameters->values[i].name, name)) return &parameters->values[i];
    kc_fail(context, "the case has no parameter %s", name);
    return NULL;
}

/* Return a parameter as a number or a text; 0 or "", and the call has failed, if there is none of that type. */
static inline int64_t kc_parameter_int(const kc_case *parameters, const char *name, kc_context *context) {
    const kc_scalar *found = kc_parameter(parameters, name, context);
    if (found == NULL) return 0;
    if (found->kind == KC_INTEGER || found->kind == KC_TRUTH) return found->integer;
    kc_fail(context, "the parameter %s is no integer", name);
    return 0;
}

static inline double kc_parameter_real(const kc_case *parameters, const char *name, kc_context *context) {
    const kc_scalar *found = kc_parameter(parameters, name, context);
    if (found == NULL) return 0;
    if (found->kind == KC_REAL) return found->real;
    if (found->kind == KC_INTEGER) return (double)found->integer;
    kc_fail(context, "the parameter %s is no number", name);
    return 0;
}

static inline const char *kc_parameter_text(const kc_case *parameters, const char *name, kc_context *context) {
    const kc_scalar *found = kc_parameter(parameters, name, context);
    if (found == NULL) return "";
    if (found->kind == KC_TEXT) return found->text;
    kc_fail(context, "the parameter %s is no text", name);
    return "";
}

/* Appends a dense tensor with any contents, on the device (KC_DEVICE) or the host (KC_HOST). The pointer stays valid
 * while the arguments do. NULL, and the call has failed, if it cannot be made. */
static inline kc_tensor *kc_new_tensor(kc_context *context, kc_args *args, const char *name, kc_dtype dtype,
                                       int32_t device, int32_t rank, const int64_t *shape) {
    kc_tensor *made = context->new_tensor(context, args, name, (int32_t)dtype, device, rank, shape);
    if (made == NULL) kc_fail(context, "the tensor %s cannot be made", name);
    return made;
}

/* Append a scalar. */
static inline int kc_new_int(kc_context *context, kc_args *args, const char *name, int64_t value) {
    kc_scalar made = {name, KC_INTEGER, 0, value, 0.0, NULL};
    return context->new_scalar(context, args, &made);
}

static inline int kc_new_real(kc_context *context, kc_args *args, const char *name, double value) {
    kc_scalar made = {name, KC_REAL, 0, 0, value, NULL};
    return context->new_scalar(context, args, &made);
}

#ifdef __cplusplus
} /* extern "C" */

#include <exception>

/* ---- C++ ---- */

#if defined(__CUDACC__)
#define KC_BOTH __host__ __device__
/* Ends the function with the error's text if a call of CUDA fails. */
#define KC_CUDA(call)                                                                                     \
    do {                                                                                                  \
        cudaError_t kc_error = (call);                                                                    \
        if (kc_error != cudaSuccess)                                                                      \
            return kc_fail(context, "%s:%d: %s: %s", __FILE__, __LINE__, #call, cudaGetErrorString(kc_error)); \
    } while (0)
#else
#define KC_BOTH
#endif

#if defined(KC_CHECKED)
#include <cassert>
#include <cstdlib>
#endif

namespace kc {

template <typename T> struct dtype_of;
template <> struct dtype_of<bool> { static constexpr kc_dtype value = KC_BOOL; };
template <> struct dtype_of<uint8_t> { static constexpr kc_dtype value = KC_UINT8; };
template <> struct dtype_of<int8_t> { static constexpr kc_dtype value = KC_INT8; };
template <> struct dtype_of<int16_t> { static constexpr kc_dtype value = KC_INT16; };
template <> struct dtype_of<uint16_t> { static constexpr kc_dtype value = KC_UINT16; };
template <> struct dtype_of<int32_t> { static constexpr kc_dtype value = KC_INT32; };
template <> struct dtype_of<uint32_t> { static constexpr kc_dtype value = KC_UINT32; };
template <> struct dtype_of<int64_t> { static constexpr kc_dtype value = KC_INT64; };
template <> struct dtype_of<uint64_t> { static constexpr kc_dtype value = KC_UINT64; };
template <> struct dtype_of<float> { static constexpr kc_dtype value = KC_FLOAT32; };
template <> struct dtype_of<double> { static constexpr kc_dtype value = KC_FLOAT64; };

/* Elements of a tensor by index: `a(row, column)`. Kernels take it by value. When a test is judged (KC_CHECKED), an
 * index out of range ends the call with the line of this header, the block and the thread; else nothing is checked. */
template <typename T, int Rank> struct view {
    T *data = nullptr;
    int64_t shape[Rank > 0 ? Rank : 1] = {};
    int64_t strides[Rank > 0 ? Rank : 1] = {};

    template <typename... Index> KC_BOTH T &operator()(Index... index) const {
        static_assert(sizeof...(Index) == Rank, "one index for each dimension");
        const int64_t at[] = {static_cast<int64_t>(index)..., 0};
        int64_t offset = 0;
        for (int i = 0; i < Rank; i++) {
#if defined(KC_CHECKED)
            assert(at[i] >= 0 && at[i] < shape[i] && "kernelcup: an index of a view is out of range");
#endif
            offset += at[i] * strides[i];
        }
        return data[offset];
    }

    KC_BOTH int64_t size() const {
        int64_t count = 1;
        for (int i = 0; i < Rank; i++) count *= shape[i];
        return count;
    }
};

/* Returns a view of a tensor. If its rank or the size of its elements is another one, the call has failed. T may be a
 * type of CUDA, such as __half; the dtype is compared where T is a type of C++. */
template <typename T, typename = void> struct has_dtype { static constexpr int value = 0; };
template <typename T> struct has_dtype<T, decltype(void(dtype_of<T>::value))> {
    static constexpr int value = dtype_of<T>::value;
};
template <typename T> struct plain { using type = T; };
template <typename T> struct plain<const T> { using type = T; };

template <typename T, int Rank> view<T, Rank> view_of(const kc_tensor *tensor, kc_context *context) {
    static_assert(Rank >= 0 && Rank <= KC_MAX_RANK, "a rank that tensors may have");
    view<T, Rank> made;
    if (tensor == nullptr) return made;
    constexpr int dtype = has_dtype<typename plain<T>::type>::value;
    if (tensor->rank != Rank) {
        kc_fail(context, "the tensor %s has %d dimensions; the view has %d", tensor->name, (int)tensor->rank, Rank);
    } else if (dtype != 0 && tensor->dtype != dtype) {
        kc_fail(context, "the tensor %s has dtype %d of kc_dtype; the view has %d", tensor->name, (int)tensor->dtype,
                dtype);
    } else {
        made.data = static_cast<T *>(tensor->data);
        for (int i = 0; i < Rank; i++) made.shape[i] = tensor->shape[i], made.strides[i] = tensor->strides[i];
    }
    return made;
}

/* Returns a view of tensor number `index` of an input or an output. */
template <typename T, int Rank> view<T, Rank> view_of(const kc_args *args, int32_t index, kc_context *context) {
    return view_of<T, Rank>(kc_tensor_at(args, index, context), context);
}

#if defined(__CUDACC__)
inline cudaStream_t stream(const kc_context *context) { return static_cast<cudaStream_t>(context->stream); }
#endif

/* Calls a function of the C interface: exceptions, failed launches and unchecked messages become failures. */
template <typename Call> int guarded(kc_context *context, Call call) noexcept {
    int code;
#if defined(__CUDACC__)
    cudaGetLastError(); /* forget a failure of an earlier call, such as that of a capture */
#endif
    try {
        code = call();
    } catch (const std::exception &error) {
        return kc_fail(context, "an exception left the function: %s", error.what());
    } catch (...) {
        return kc_fail(context, "an exception left the function that is no std::exception");
    }
#if defined(__CUDACC__)
#if defined(KC_LAUNCHES)
    const bool launches = true;
#else
    const bool launches = context->device >= 0; /* without a GPU any question to CUDA is an error */
#endif
    if (code == 0 && !context->failed && launches) {
        cudaError_t error = cudaGetLastError();
        if (error != cudaSuccess)
            return kc_fail(context, "CUDA: %s (%s)", cudaGetErrorString(error), cudaGetErrorName(error));
    }
#endif
    return context->failed ? 1 : code;
}

} /* namespace kc */

/* What KernelCup calls. */
extern "C" {
#if defined(KC_SUBMISSION)
__attribute__((weak, used, visibility("default"))) int kc_call_custom_kernel(const kc_args *inputs, kc_args *outputs,
                                                                             kc_context *context) {
    return kc::guarded(context, [&] { return custom_kernel(inputs, outputs, context); });
}
#endif
#if defined(KC_LEADERBOARD)
__attribute__((weak, used, visibility("default"))) int kc_call_generate_input(const kc_case *parameters, uint64_t seed,
                                                                              kc_args *inputs, kc_context *context) {
    return kc::guarded(context, [&] { return generate_input(parameters, seed, inputs, context); });
}
__attribute__((weak, used, visibility("default"))) int kc_call_ref_kernel(const kc_args *inputs, kc_args *outputs,
                                                                          kc_context *context) {
    return kc::guarded(context, [&] { return ref_kernel(inputs, outputs, context); });
}
#if defined(KC_CHECKS)
__attribute__((weak, used, visibility("default"))) int kc_call_check_implementation(const kc_args *inputs,
                                                                                    const kc_args *expected,
                                                                                    const kc_args *actual,
                                                                                    kc_context *context) {
    return kc::guarded(context, [&] { return check_implementation(inputs, expected, actual, context); });
}
#endif
#endif
}
#endif /* __cplusplus */
#endif /* KERNELCUP_H */
