/* The shape training: the saw-tooth of forward and backward passes over weights that stay. */
#include "lab/shapes/shapes_all.h"

enum {
    STATES = 2 /* of the optimizer for each weight, as Adam keeps them */
};

struct model {
    uint64_t layers;
    uint64_t weights_bytes;
    uint64_t *activations;
    uint64_t *gradients;
};

/* Forwards the activations pile up; backwards each is freed once its layer's gradient is there. */
static void pass(struct scenario *scenario, const struct model *model, uint64_t batch_bytes)
{
    for (uint64_t i = 0; i < model->layers && scenario_goes_on(scenario); i++)
        model->activations[i] = scenario_allocate(scenario, batch_bytes);
    for (uint64_t i = model->layers; i-- > 0 && scenario_goes_on(scenario);) {
        uint64_t flowing = scenario_allocate(scenario, batch_bytes);
        model->gradients[i] = scenario_allocate(scenario, model->weights_bytes);
        scenario_free(scenario, model->activations[i]);
        scenario_free(scenario, flowing);
    }
}

static void update(struct scenario *scenario, const struct model *model, bool first)
{
    for (uint64_t i = 0; first && i < STATES * model->layers && scenario_goes_on(scenario); i++)
        scenario_allocate(scenario, model->weights_bytes);
    for (uint64_t i = 0; i < model->layers && scenario_goes_on(scenario); i++)
        scenario_free(scenario, model->gradients[i]);
}

void shape_training(struct scenario *scenario, const uint64_t *values)
{
    const uint64_t steps = values[0];
    const uint64_t full_bytes = values[3];
    const uint64_t vary = values[4];
    struct model model = {.layers = values[1], .weights_bytes = values[2]};
    model.activations = scenario_numbers(scenario, model.layers);
    model.gradients = scenario_numbers(scenario, model.layers);
    for (uint64_t i = 0; i < model.layers && scenario_goes_on(scenario); i++)
        scenario_allocate(scenario, model.weights_bytes);
    for (uint64_t step = 0; step < steps && scenario_goes_on(scenario); step++) {
        uint64_t percent = scenario_draw(scenario, 100 - vary, 100);
        uint64_t batch_bytes = full_bytes / 100 * percent + full_bytes % 100 * percent / 100;
        pass(scenario, &model, batch_bytes);
        update(scenario, &model, step == 0);
    }
    scenario_numbers_release(scenario, model.activations, model.layers);
    scenario_numbers_release(scenario, model.gradients, model.layers);
}
