// SPDX-License-Identifier: Apache-2.0
#include <tw/evolution/swarm.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tw/base/contract.hpp>
#include <tw/evolution/draws.hpp>

#include "answers.hpp"

namespace tw::search {

void visit(SwarmOptions& swarm, OptionVisitor& visitor) {
  visitor.field("inertia", swarm.inertia, {.least = 0, .most = 1, .excludes_most = true}, {.meaning = "share of the previous velocity that is kept"});
  visitor.field("cognitive", swarm.cognitive, {.least = 0, .excludes_most = true}, {.meaning = "attraction to a particle's own best position"});
  visitor.field("social", swarm.social, {.least = 0, .excludes_most = true}, {.meaning = "attraction to the best position of all particles"});
  visitor.field("velocity_limit", swarm.velocity_limit, {.least = 0, .excludes_least = true},
                {.meaning = "largest velocity, as a share of each dimension's range"});
  visitor.field("particles", swarm.particles, at_least(1), {.meaning = "number of particles of this worker"});
}

void SwarmOptions::validate() const { expect_none(out_of_bounds("swarm", *this)); }

double constriction(double phi) {
  TW_EXPECTS(phi > 4, "constriction needs cognitive + social above 4, got ", phi);
  return 2 / (phi - 2 + std::sqrt(phi * (phi - 4)));
}

SwarmOptions clamped_swarm(double velocity_limit) { return {.velocity_limit = velocity_limit}; }

SwarmOptions constricted_swarm(double cognitive, double social) {
  const double chi = constriction(cognitive + social);
  return {.inertia = chi, .cognitive = chi * cognitive, .social = chi * social};
}

SwarmOptions canonical_swarm(double cognitive, double social) {
  SwarmOptions options = constricted_swarm(cognitive, social);
  options.velocity_limit = 1;
  return options;
}

void fly(Particle& particle, const std::vector<double>& own, const std::vector<double>& social, const SwarmOptions& options, CounterRng& random) {
  for (size_t d = 0; d < particle.position.size(); ++d) {
    double& x = particle.position[d];
    double& v = particle.velocity[d];
    const double to_own = options.cognitive * uniform(random) * (own[d] - x);
    const double to_social = options.social * uniform(random) * (social[d] - x);
    v = std::clamp(options.inertia * v + to_own + to_social, -options.velocity_limit, options.velocity_limit);
    x += v;
    if (x < 0 || x > 1) {
      x = std::clamp(x, 0.0, 1.0);
      v = 0;
    }
  }
}

Swarm::Swarm(const Space& space, SwarmOptions options) : space_(space), options_(options) {
  options_.validate();
  members_.resize(static_cast<size_t>(options_.particles));
  waiting_.resize(members_.size());
  std::iota(waiting_.begin(), waiting_.end(), size_t{0});
}

void Swarm::Best::improve(const std::vector<double>& other, const Standing& other_standing) {
  if (other_standing < standing) {
    position = other;
    standing = other_standing;
  }
}

std::vector<double> Swarm::random_position(CounterRng& random) const {
  std::vector<double> position(space_.dimensions());
  for (double& x : position) x = uniform(random);
  return position;
}

void Swarm::begin(Particle& particle, CounterRng& random) const {
  // Half of the difference to another random position: the initial velocity of Standard PSO 2007.
  particle.position = random_position(random);
  particle.velocity = random_position(random);
  for (size_t d = 0; d < particle.position.size(); ++d) particle.velocity[d] = (particle.velocity[d] - particle.position[d]) / 2;
}

Proposal Swarm::ask(const Population& /*population*/, CounterRng& random) {
  if (waiting_.empty()) return {.values = space_.decode(random_position(random)), .tag = {.index = -1}};
  const size_t index = waiting_.front();
  waiting_.pop_front();
  Member& member = members_[index];
  if (member.best.position.empty()) {
    begin(member.particle, random);
  } else {
    fly(member.particle, member.best.position, social_.position, options_, random);
  }
  const Tag tag{.generation = member.moves++, .index = static_cast<int32_t>(index)};
  member.in_flight = Proposal{.values = space_.decode(member.particle.position), .tag = tag};
  return *member.in_flight;
}

void Swarm::tell(const Individual& individual) {
  const auto index = static_cast<size_t>(individual.tag.index);
  const bool own =
      individual.tag.index >= 0 && index < members_.size() && members_[index].in_flight && answers(individual, *members_[index].in_flight);
  if (own) {
    Member& member = members_[index];
    member.in_flight.reset();
    waiting_.push_back(index);
    member.best.improve(member.particle.position, individual.standing());
    social_.improve(member.particle.position, individual.standing());
  } else if (individual.standing() < social_.standing) {
    social_.improve(space_.encode(individual.values), individual.standing());
  }
}

}  // namespace tw::search
