$lanes
