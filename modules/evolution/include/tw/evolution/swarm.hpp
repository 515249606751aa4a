// SPDX-License-Identifier: Apache-2.0
// Particle swarms. Ref: Kennedy & Eberhart 1995; Shi & Eberhart 1998 (inertia).
#pragma once
#include <deque>
#include <limits>
#include <optional>
#include <tw/base/option.hpp>
#include <tw/evolution/propagator.hpp>

namespace tw::search {

/// How particles move, in the unit cube of Space::encode(). For each dimension d of a particle with position x and velocity v:
///   v_d <- inertia * v_d + cognitive * r_d * (p_d - x_d) + social * s_d * (g_d - x_d), then clamped to +-velocity_limit;   x_d <- x_d + v_d
/// where p is the particle's best position, g is the best position of all, and r_d, s_d are uniform in [0, 1), drawn again for each dimension. The
/// defaults are those of the basic swarm.
/// Ref: Eberhart & Shi 2000, for the coefficients.
struct SwarmOptions {
  double inertia = 0.729;
  double cognitive = 1.49445;
  double social = 1.49445;
  /// Maximum velocity, as a share of each dimension's range.
  double velocity_limit = std::numeric_limits<double>::infinity();
  /// Particles on this worker; 20 to 50 on all workers together are usual.
  int particles = 8;

  /// @throws ContractError naming the field that is wrong
  void validate() const;
};
void visit(SwarmOptions& swarm, OptionVisitor& visitor);

/// The factor chi = 2 / (phi - 2 + sqrt(phi * (phi - 4))), with which a swarm converges without a velocity limit.
/// @param phi cognitive + social, above 4. @throws ContractError otherwise. Ref: Clerc & Kennedy 2002.
double constriction(double phi);

/// The basic swarm, with velocities clamped. Ref: Eberhart, Simpson & Dobbins 1996.
SwarmOptions clamped_swarm(double velocity_limit = 0.2);
/// v <- chi * (v + cognitive * r * (p - x) + social * s * (g - x)), with chi = constriction(cognitive + social).
/// @throws ContractError unless cognitive + social is above 4
SwarmOptions constricted_swarm(double cognitive = 2.05, double social = 2.05);
/// constricted_swarm() with velocities clamped to the range. Ref: Bratton & Kennedy 2007; Eberhart & Shi 2000.
SwarmOptions canonical_swarm(double cognitive = 2.05, double social = 2.05);

struct Particle {
  std::vector<double> position = {};
  std::vector<double> velocity = {};
};

/// One move of a particle, see SwarmOptions. A particle that would leave the cube stays on its face, with zero velocity in that dimension (absorbing
/// walls; Helwig, Branke & Mostaghim 2013). @param own the particle's best position. @param social the best position of all
void fly(Particle& particle, const std::vector<double>& own, const std::vector<double>& social, const SwarmOptions& options, CounterRng& random);

/// A swarm of this worker's particles, which are attracted to the best of all individuals received. Asynchronous: a particle can move once its last
/// position has been evaluated, and the one that has waited longest moves next. While all particles are in flight, proposals are uniformly random
/// points. A failed evaluation leaves the particle's best position unchanged; a particle without one restarts at a random position.
///
/// Tags: index, the particle, or -1 for a random point; generation, the number of the particle's earlier moves. Only results of a particle's own
/// proposals update its best position. Cost of ask() and tell(): O(dimensions + particles).
class Swarm final : public Propagator {
 public:
  /// @param space copied. @throws ContractError for a wrong option
  explicit Swarm(const Space& space, SwarmOptions options = {});
  Proposal ask(const Population& population, CounterRng& random) override;
  void tell(const Individual& individual) override;

 private:
  struct Best {
    std::vector<double> position = {};
    Standing standing = {};

    void improve(const std::vector<double>& other, const Standing& other_standing);
  };
  struct Member {
    Particle particle = {};
    Best best = {};
    int32_t moves = 0;
    std::optional<Proposal> in_flight = std::nullopt;
  };

  std::vector<double> random_position(CounterRng& random) const;
  void begin(Particle& particle, CounterRng& random) const;

  Space space_;
  SwarmOptions options_;
  std::vector<Member> members_;
  std::deque<size_t> waiting_;  // particles that may move, longest waiting first
  Best social_;
};

}  // namespace tw::search
