// SPDX-License-Identifier: Apache-2.0
#include <tw/base/exact_text.hpp>
#include <tw/comm/collectives.hpp>
#include <tw/gradients/compression.hpp>

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>

#include "largest.hpp"
#include "residuals.hpp"

namespace tw {
namespace {

class TopKCompression : public Compressor {
 public:
  explicit TopKCompression(const TopKOptions& options) : options_(options) { options_.validate(); }

  std::string describe() const override { return "top-k " + exact_text(options_.fraction); }

  void prepare(const BucketPlan& plan, const std::vector<TensorSpec>& gradients, c10::Device device) override {
    residuals_.prepare("top-k", plan, gradients, device);
  }

  BucketSum begin(const Communicator& comm, size_t bucket, const at::Tensor& values) override {
    const at::Tensor& residual = residuals_.bucket(bucket);
    const int64_t n = values.numel();
    if (n == 0) return {};
    const int64_t k = std::clamp<int64_t>(std::llround(options_.fraction * static_cast<double>(n)), 1, n);
    residual.add_(values);
    const at::Tensor places = places_of_largest(residual, k);
    const at::Tensor chosen = residual.index_select(0, places);
    residual.index_fill_(0, places, 0);
    residual.nan_to_num_(0, 0, 0);  // a non-finite gradient must not persist
    values.zero_();
    if (gathers_less(comm.size(), k, n, values.element_size())) return gather(comm, places, chosen, values);
    values.index_copy_(0, places, chosen);
    return {iallreduce(comm, values, ReduceOp::sum), static_cast<int64_t>(values.nbytes())};
  }

  void take_back(int64_t id, const at::Tensor& sum, int ranks) override { residuals_.take_back(id, sum, ranks); }
  void rescale(double factor) override { residuals_.rescale(factor); }
  std::vector<NamedShard> shards() const override { return residuals_.shards(); }

 private:
  // Compares the bytes that a rank receives: the elements that the other ranks chose, or an all-reduce of all elements.
  static bool gathers_less(int64_t ranks, int64_t k, int64_t n, int64_t element_bytes) {
    const auto bytes_of_place = static_cast<int64_t>(c10::elementSize(type_of_places(n)));
    return (ranks - 1) * k * (bytes_of_place + element_bytes) <= 2 * (ranks - 1) * n * element_bytes / ranks;
  }

  // One message per rank: the chosen values, then their indices. Added in rank order, so that all ranks get the same bits.
  static BucketSum gather(const Communicator& comm, const at::Tensor& places, const at::Tensor& chosen, const at::Tensor& values) {
    const int64_t of_chosen = chosen.numel() * values.element_size();
    const at::ScalarType place = type_of_places(values.numel());
    const int64_t of_places = chosen.numel() * static_cast<int64_t>(c10::elementSize(place));
    const int64_t begin_of_places = (of_chosen + 7) / 8 * 8;  // aligned for either type
    const auto chosen_in = [=](const at::Tensor& bytes) { return bytes.narrow(0, 0, of_chosen).view(values.scalar_type()); };
    const auto places_in = [=](const at::Tensor& bytes) { return bytes.narrow(0, begin_of_places, of_places).view(place); };
    const int64_t bytes = (begin_of_places + of_places + 7) / 8 * 8;  // so that the next rank's part is aligned
    const at::Tensor mine = at::empty({bytes}, values.options().dtype(at::kByte));
    chosen_in(mine).copy_(chosen);
    places_in(mine).copy_(places);
    const at::Tensor all = at::empty({comm.size(), mine.numel()}, mine.options());
    return {iallgather(comm, mine, all), of_chosen + of_places, [=] {
              for (int64_t rank = 0; rank < all.size(0); ++rank) values.index_add_(0, places_in(all[rank]), chosen_in(all[rank]));
            }};
  }

  TopKOptions options_;
  Residuals residuals_;
};

}  // namespace

void visit(TopKOptions& options, OptionVisitor& visitor) {
  visitor.field("fraction", options.fraction, {.least = 0, .most = 1, .excludes_least = true},
                {.meaning = "share of a bucket's elements that is sent"});
}
void TopKOptions::validate() const { expect_none(out_of_bounds(*this)); }

std::shared_ptr<Compressor> top_k_compression(const TopKOptions& options) { return std::make_shared<TopKCompression>(options); }

}  // namespace tw
