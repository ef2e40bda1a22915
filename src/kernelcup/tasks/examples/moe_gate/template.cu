//!POPCORN leaderboard moe_gate
// One warp for each token: the largest score is taken and struck out, `top` times.
constexpr int EACH = 8; // scores of a lane
constexpr float GONE = -1e30f;

__global__ void gate(float *weights, int *experts, const float *scores, int64_t tokens, int count, int top) {
    const int64_t token = blockIdx.x * int64_t(blockDim.y) + threadIdx.y;
    if (token >= tokens) return;
    float left[EACH];
    for (int i = 0; i < EACH; i++) {
        const int at = i * 32 + threadIdx.x;
        left[i] = at < count ? scores[token * count + at] : GONE;
    }
    float first = 0, sum = 0;
    for (int number = 0; number < top; number++) {
        float best = GONE;
        int which = 0;
        for (int i = 0; i < EACH; i++)
            if (left[i] > best) best = left[i], which = i * 32 + threadIdx.x;
        for (int step = 16; step > 0; step /= 2) {
            const float other = __shfl_xor_sync(~0u, best, step);
            const int there = __shfl_xor_sync(~0u, which, step);
            if (other > best || (other == best && there < which)) best = other, which = there;
        }
        for (int i = 0; i < EACH; i++)
            if (i * 32 + threadIdx.x == which) left[i] = GONE;
        if (number == 0) first = best;
        const float raised = expf(best - first);
        sum += raised;
        if (threadIdx.x == 0) weights[token * top + number] = raised, experts[token * top + number] = which;
    }
    if (threadIdx.x == 0)
        for (int number = 0; number < top; number++) weights[token * top + number] /= sum;
}

int custom_kernel(const kc_args *inputs, kc_args *outputs, kc_context *context) {
    auto scores = kc::view_of<float, 2>(inputs, 0, context), weights = kc::view_of<float, 2>(outputs, 0, context);
    auto experts = kc::view_of<int32_t, 2>(outputs, 1, context);
    const kc_scalar *top = kc_scalar_at(inputs, 0, context);
    if (context->failed) return 1;
    if (scores.shape[1] > 32 * EACH) return kc_fail(context, "%lld experts", (long long)scores.shape[1]);
    gate<<<unsigned((scores.shape[0] + 3) / 4), dim3(32, 4), 0, kc::stream(context)>>>(
        weights.data, experts.data, scores.data, scores.shape[0], int(scores.shape[1]), int(top->integer));
    return 0;
}
