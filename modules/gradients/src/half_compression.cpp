// SPDX-License-Identifier: Apache-2.0
#include <tw/comm/collectives.hpp>
#include <tw/gradients/compression.hpp>

#include <ATen/ops/empty.h>

#include "residuals.hpp"

namespace tw {
namespace {

class HalfCompression : public Compressor {
 public:
  explicit HalfCompression(c10::ScalarType dtype) : dtype_(dtype) {}

  void prepare(const BucketPlan& plan, const std::vector<TensorSpec>& gradients) override {
    expect_compressible("half precision", gradients);
    for (const Bucket& bucket : plan.buckets) halves_.push_back(at::empty({bucket.numel}, at::TensorOptions().dtype(dtype_)));
  }

  int64_t reduce(const Communicator& comm, size_t bucket, const at::Tensor& values) override {
    const at::Tensor& half = halves_[bucket];
    half.copy_(values);
    allreduce(comm, half, ReduceOp::sum);
    values.copy_(half);
    return static_cast<int64_t>(half.nbytes());
  }

 private:
  c10::ScalarType dtype_;
  std::vector<at::Tensor> halves_;  // by bucket
};

}  // namespace

std::shared_ptr<Compressor> half_compression(HalfPrecision precision) {
  return std::make_shared<HalfCompression>(precision == HalfPrecision::float16 ? at::kHalf : at::kBFloat16);
}

}  // namespace tw
